"""gqa.warm_serving: what it tells and returns, that its calls then run on a handle that may not tune, what is refused."""

import gqa
import numpy as np
import pytest
from gqa import ServingProgress, Status

from conftest import BUDGET
from test_errors import refused

RANGE = "batch=1..2,kv=20..40,page=16,dtype=f16"  # tables of 2 and of 3 columns
LAYER = dict(q_heads=2, kv_heads=1, head_dim=32)


def decode(handle, batch, columns):
    """A step on a cache that has no keys yet."""
    pages = np.zeros((1, 16, 1, 32), np.float16)
    lists = dict(cache_seqlens=np.zeros(batch, np.int32), page_table=np.zeros((batch, columns), np.int32))
    q = np.zeros((batch, 1, 2, 32), np.float16)
    return gqa.flash_attn_with_kvcache(q, pages, pages, causal=True, handle=handle, **lists)


def test_every_call_of_the_range_is_served(tmp_path):
    path = tmp_path / "cache.db"
    with gqa.Handle("host", cache_path=path, tuning_budget=BUDGET) as handle:
        last = handle.warm_serving(RANGE, **LAYER)
        assert (last.shapes, last.done, last.failed, last.phase) == (4, 4, 0, "warm")
        assert handle.warm_serving(RANGE, **LAYER, plan_only=True).tuned == 4
    with gqa.Handle("host", cache_path=path, tuning="cached-only") as handle:
        for batch in (1, 2):
            for columns in (2, 3):
                assert not decode(handle, batch, columns).any()
        refused(lambda: decode(handle, 3, 2), gqa.GqaError, Status.ERROR_NOT_CACHED)


def test_the_plan_is_told_first_and_then_each_shape(handle):
    told = []
    last = handle.warm_serving(RANGE, **LAYER, verbose=told.append)
    assert all(isinstance(each, ServingProgress) for each in told) and told[-1] == last
    assert [each.done for each in told] == [0, 1, 2, 3, 4]
    assert told[0].shape is None and told[0].phase == "plan"
    assert told[1].shape == "b=1,hq=2,hk=1,sq=1,sk=32,d=32,dtype=f16,page=16,lens"
    assert told[0].kernels > 0 and told[0].about_seconds <= told[0].most_seconds == pytest.approx(4 * BUDGET)
    assert [each.seconds for each in told] == sorted(each.seconds for each in told)


def test_a_plan_makes_nothing_ready(tmp_path):
    with gqa.Handle("host", cache_path=tmp_path / "cache.db", tuning="cached-only") as handle:
        plan = handle.warm_serving(RANGE, **LAYER, plan_only=True)
        assert (plan.shapes, plan.tuned, plan.done, plan.shape) == (4, 0, 0, None)
        refused(lambda: decode(handle, 1, 2), gqa.GqaError, Status.ERROR_NOT_CACHED)
        refused(
            lambda: handle.warm_serving(RANGE, **LAYER), gqa.GqaError, Status.ERROR_NOT_CACHED, "4 of 4 shapes", "b=1"
        )


def test_verbose_prints_to_stderr(handle, capfd):
    handle.warm_serving(RANGE, **LAYER, verbose=True)
    printed = capfd.readouterr()
    assert printed.out == ""
    plan, last = printed.err.splitlines()
    assert plan.startswith("gqa: plan: 4 shapes, 0 tuned already; ")
    assert last.startswith("gqa: warm: 4 of 4 shapes, ")
    handle.warm_serving(RANGE, **LAYER)
    assert capfd.readouterr().err == ""


def test_an_exception_of_the_callback_arrives(handle):
    told = []

    def stop(at):
        told.append(at)
        if at.done:
            raise KeyboardInterrupt("enough")

    with pytest.raises(KeyboardInterrupt, match="enough"):
        handle.warm_serving(RANGE, **LAYER, verbose=stop)
    assert [at.done for at in told] == [0, 1]


def test_on_a_shared_handle():
    assert gqa.warm_serving(RANGE, **LAYER, device="host", plan_only=True).shapes == 4


def test_what_is_wrong_is_refused(handle):
    def warm(given=RANGE, **changed):
        return lambda: handle.warm_serving(given, **{**LAYER, **changed})

    refused(warm("batch=3..1,kv=8"), gqa.GqaValueError, Status.ERROR_OPTION, "batch='3..1'", "runs backwards")
    refused(warm(kv_heads=3), gqa.GqaValueError, Status.ERROR_HEADS, 2, 3)
    refused(warm(head_dim=33), gqa.GqaValueError, Status.ERROR_HEAD_DIM, 33)
    refused(warm(window_size=(-2, 0)), gqa.GqaValueError, Status.ERROR_OPTION, "window_size", -2)
    for wrong in (dict(verbose="yes"), dict(given=None)):
        with pytest.raises(TypeError):
            warm(**wrong)()
