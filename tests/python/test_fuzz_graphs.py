"""tools/fuzz graphs: a few cases of a fixed seed find nothing; planted faults are found, shrunk and printed as tests.

Owns: the judgement of that fuzz. Never: judges gqa itself by it for longer than a few seconds; tools/test --full does.
"""

import io
import sys
from dataclasses import replace
from pathlib import Path

import gqa
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from fuzzing import graphs  # noqa: E402
from fuzzing.graphs import check, reference  # noqa: E402
from fuzzing.graphs.case import Case, Input, Step, dims_of, tidy  # noqa: E402
from fuzzing.shrinking import shrink  # noqa: E402
from fuzzing.worker import Worker, guarded  # noqa: E402

SOFTMAX = Case(
    inputs=(Input("a", ("n", "m"), "float16"), Input("b", ("m", "e"), "float16")),
    steps=(
        Step("t0", "softmax", ("a",), (-1,)),
        Step("t1", "matmul", ("t0", "b"), (False, False)),
        Step("t2", "scale", ("t1",), (3.0,)),
    ),
    sizes=(("n", 16), ("m", 48), ("e", 33)),
    powers=((0, 0), (2, -3)),
    seed=11,
)


@pytest.fixture(scope="module", autouse=True)
def handle():
    graphs.setup("cpu", 0.1)
    yield
    check.HANDLES.clear()


def planted(monkeypatch, wrong):
    """Programs whose result is changed."""
    right = gqa.KernelGraph.superoptimize

    def superoptimize(self, *args, **options):
        program = right(self, *args, **options)
        return lambda inputs: wrong(program(inputs))

    monkeypatch.setattr(gqa.KernelGraph, "superoptimize", superoptimize)


def run_test(text):
    names = {}
    exec(text, names)
    (function,) = (value for name, value in names.items() if name.startswith("test_"))
    function()


def test_a_fixed_seed_finds_nothing():
    said = io.StringIO()
    worker = Worker(graphs, 3, "cpu", print_to=said)
    worker.run(0, cases=12)
    assert worker.tally.cases == 12 and worker.tally.failed == 0, said.getvalue()


def test_a_case_is_the_same_whatever_ran_before():
    assert graphs.draw(5, 8, "cpu") == graphs.draw(5, 8, "cpu")
    drawn = [case for case in (graphs.draw(5, n, "cpu") for n in range(60)) if case]
    assert len({case.steps for case in drawn}) > 40 and len({len(case.steps) for case in drawn}) > 6
    assert {step.op for case in drawn for step in case.steps} > {"matmul", "exp", "rms_norm", "mask", "sum"}


def nan_in_one(out):
    out = np.array(out)
    out[3, 5] = np.nan
    return out


@pytest.mark.parametrize(
    "wrong, kind",
    [(lambda out: (np.asarray(out) * 1.03).astype(np.float16), "wrong"), (nan_in_one, "not finite")],
    ids=["3 percent", "one NaN"],
)
def test_planted_faults_are_found_and_printed_as_tests(wrong, kind, monkeypatch):
    assert guarded(graphs, SOFTMAX) is None
    planted(monkeypatch, wrong)
    failure = guarded(graphs, SOFTMAX)
    assert failure is not None and failure.kind in (kind, "inexact") and failure.known is None
    smaller, last = shrink(SOFTMAX, failure, graphs.simpler, lambda case: guarded(graphs, case), 40, 20.0)
    assert len(smaller.powers) == 1 and len(smaller.steps) < len(SOFTMAX.steps)
    with pytest.raises(AssertionError):
        run_test(graphs.test(smaller, last, "test_planted"))
    monkeypatch.undo()
    run_test(graphs.test(smaller, last, "test_planted"))


def test_a_quotient_by_what_cancels_is_finite_by_luck(monkeypatch):
    """A divisor is 3e-4 of what it is the rest of, within what rounding makes of 0: one evaluation of a hundred makes an
    infinity of the quotient. Other rows have no such luck."""
    case = Case(
        inputs=tuple(Input(name, tuple(dims), "float16") for name, dims in (("a", "bnd"), ("b", "bmd"), ("c", "bme"))),
        steps=(
            Step("t0", "matmul", ("a", "b"), (False, True)),
            Step("t1", "scale", ("t0",), (0.125,)),
            Step("t2", "exp", ("t1",)),
            Step("t3", "sum", ("t2",), (-1,)),
            Step("t4", "reciprocal", ("t3",)),
            Step("t5", "mul", ("t2", "t4")),
            Step("t6", "matmul", ("t5", "c"), (False, False)),
            Step("t7", "max", ("t6",), (0,)),
            Step("t8", "div", ("t6", "t7")),
            Step("t9", "max", ("t8",), (-1,)),
        ),
        sizes=(("b", 3), ("n", 127), ("m", 64), ("d", 31), ("e", 64)),
        powers=((-4, 5, 0),),
        seed=691923042,
    )
    arrays = check.arrays_of(case, check.names_for(case, case.powers[0]))
    with np.errstate(all="ignore"):
        near = reference.evaluate(case, arrays, reference.nearest).numbers
        lucky, not_luck = near.copy(), near.copy()
        lucky[1, 109], not_luck[1, 3] = np.inf, np.inf
        assert check.compare(case, arrays, near) is None
        assert check.compare(case, arrays, lucky) is None
        assert check.compare(case, arrays, not_luck).kind == "not finite"
        monkeypatch.setattr(check, "AGAIN", 0)
        assert check.compare(case, arrays, lucky).kind == "not finite"


def test_an_input_that_is_written_is_seen(monkeypatch):
    def superoptimize(self, *args, **options):
        def program(inputs):
            inputs[0][0, 0] = 7
            return np.zeros((16, 33), np.float16)

        return program

    monkeypatch.setattr(gqa.KernelGraph, "superoptimize", superoptimize)
    assert guarded(graphs, SOFTMAX).kind == "overwritten"


def test_errors_are_held_against_operator_by_operator():
    """The answer that rounds each result passes; one with four times its error does not."""
    case = replace(SOFTMAX, powers=((0, 0),))
    arrays = check.arrays_of(case, check.names_for(case, (0, 0)))
    exact = reference.evaluate(case, arrays).numbers
    near = reference.evaluate(case, arrays, reference.nearest).numbers
    assert check.compare(case, arrays, near) is None
    assert check.compare(case, arrays, exact + 4 * (near - exact)).kind == "inexact"


def test_a_sum_that_may_be_zero_is_no_program_s_fault():
    """mean / sum of deviations from it: a sum in float32 is 0 in some orders, and the quotient infinite. A row that
    every order leaves finite must be."""
    case = Case(
        (Input("a", ("n", "d"), "float32"),),
        (
            Step("t0", "mean", ("a",), (-1,)),
            Step("t1", "sub", ("a", "t0"), ()),
            Step("t2", "sum", ("t1",), (-1,)),
            Step("t3", "div", ("t0", "t2"), ()),
        ),
        (("n", 2), ("d", 14)),
        powers=((0,),),
    )
    arrays = {"a": np.random.default_rng(3).standard_normal((2, 14)).astype(np.float32).astype(np.float64)}
    arrays["a"][1] = np.r_[np.zeros(13), 2.0**-20]  # all orders leave it the same deviation
    near = reference.evaluate(case, arrays, reference.nearest).numbers
    assert np.isfinite(near).all()
    with np.errstate(all="ignore"):
        assert check.compare(case, arrays, np.array([[-np.inf], near[1]])) is None
        assert check.compare(case, arrays, np.array([near[0], [-np.inf]])).kind == "not finite"


def test_reference_by_hand():
    """Two rows of two: a causal mask, rms_norm with a weight, and what follows an overflow."""
    x = np.array([[1.0, 7.0], [2.0, 4.0]])
    square = (Input("a", ("n", "n"), "float32"),)

    def of(*steps, arrays=None, inputs=square):
        return reference.evaluate(Case(inputs, steps, (("n", 2),)), arrays or {"a": x})

    masked = of(Step("t0", "mask", ("a",), (None, 0)))
    np.testing.assert_array_equal(masked.numbers, [[1, -np.inf], [2, 4]])
    assert not masked.overflowed
    normed = of(
        Step("t0", "rms_norm", ("a", "b"), (0.0,)),
        inputs=(*square, Input("b", ("n",), "float32")),
        arrays={"a": x, "b": np.array([1.0, 3.0])},
    )
    np.testing.assert_allclose(normed.numbers, [[0.2, 4.2], [2 / 10**0.5, 12 / 10**0.5]])
    far = Step("t0", "scale", ("a",), (1e300,))
    with np.errstate(over="ignore"):
        assert of(far, Step("t1", "square", ("t0",)), Step("t2", "reciprocal", ("t1",))).overflowed


def test_dims_and_tidying():
    assert dims_of(SOFTMAX)["t1"] == ("n", "e")
    kept = tidy(replace(SOFTMAX, steps=SOFTMAX.steps[:1]))
    assert [each.name for each in kept.inputs] == ["a"] and kept.powers == ((0,), (2,))
    assert tidy(replace(SOFTMAX, steps=())) is None
    assert tidy(replace(SOFTMAX, steps=(Step("t0", "matmul", ("a", "a"), (False, False)),))) is None
