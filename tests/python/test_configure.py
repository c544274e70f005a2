"""gqa.configure, and what the environment says of calls that name no handle: which of the two counts, and when."""

import pathlib

import gqa
import pytest
from gqa import _defaults, _doors, _kinds, _settings

from conftest import make_qkv, run_python


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    """Before and after: shared handles that other tests use are told, too."""

    def forget():
        for name in ("GQA_TUNING", "GQA_BUDGET", "GQA_THREADS"):
            monkeypatch.delenv(name, raising=False)

    forget()
    yield
    forget()
    _settings.configured.clear()
    gqa.configure(tuning=None, budget=None)


@pytest.fixture
def made(monkeypatch):
    """The options of shared handles that are made; none is made before."""
    monkeypatch.setattr(_defaults, "_handles", {})
    monkeypatch.setattr(_defaults, "_cores", {})
    options = []

    class Made:
        def __init__(self, device, **given):
            self._core = self
            self.said = {"device": device, **given}
            options.append(self.said)

        def set_tuning(self, tuning):
            self.said["tuning"] = tuning

        def set_budget(self, seconds):
            self.said["budget"] = seconds

    monkeypatch.setattr(_defaults, "Handle", Made)
    return options


def test_nothing_said_is_the_librarys_default(made):
    _defaults.of("host")
    assert made == [{"device": "host", "tuning": 0}]
    assert _doors.tuning() == 2  # a guess


def test_the_environment_is_read_when_a_handle_is_made(made, monkeypatch):
    monkeypatch.setenv("GQA_TUNING", "cached-only")
    monkeypatch.setenv("GQA_BUDGET", "2.5")
    monkeypatch.setenv("GQA_THREADS", "3")
    _defaults.of("host")
    assert made == [{"device": "host", "tuning": 3, "tuning_budget": 2.5, "threads": 3}]
    assert _doors.tuning() == 0  # as the handle
    monkeypatch.setenv("GQA_BUDGET", "7")
    _defaults.of("host")
    assert len(made) == 1


def test_configure_comes_before_the_environment(made, monkeypatch):
    monkeypatch.setenv("GQA_TUNING", "cached-only")
    monkeypatch.setenv("GQA_BUDGET", "2.5")
    monkeypatch.setenv("GQA_THREADS", "3")
    gqa.configure(tuning="guess", budget=4, threads=2, cache="here.db")
    _defaults.of("host")
    assert made == [{"device": "host", "tuning": 2, "tuning_budget": 4.0, "threads": 2, "cache_path": "here.db"}]


def test_a_text_may_name_several_files_and_a_path_is_one(made):
    gqa.configure(cache="user.db:image.db")
    _defaults.of("host")
    assert made[-1]["cache_path"] == "user.db:image.db"
    assert _kinds.cache_files("cache", pathlib.PurePosixPath("a:b.db")) == "a\\:b.db"


def test_what_is_not_named_stays_and_none_is_the_default(made):
    gqa.configure(tuning="guess", budget=4)
    gqa.configure(budget=5)
    _defaults.of("host")
    assert made == [{"device": "host", "tuning": 2, "tuning_budget": 5.0}]
    gqa.configure(tuning=None)
    assert made[0]["tuning"] == 0 and made[0]["budget"] == 5.0 and _doors.tuning() == 2
    gqa.configure(budget=None)
    assert made[0]["budget"] == 0.0


@pytest.mark.parametrize("given", [{"threads": 2}, {"cache": "other.db"}])
def test_what_a_made_handle_keeps_is_refused_and_changes_nothing(made, given):
    gqa.configure(budget=1)
    _defaults.of("host")
    (name,) = given
    with pytest.raises(gqa.GqaValueError, match=f"{name} is given, but the shared handle of host is made; .*configure first"):
        gqa.configure(budget=2, **given)
    assert _settings.configured == {"budget": 1.0}


@pytest.mark.parametrize(
    "given, words",
    [
        (dict(tuning="later"), "tuning is 'later'; expected one of 'now', 'guess', 'cached-only'"),
        (dict(budget=0), "budget is 0; expected more than 0, or None for the default"),
        (dict(budget="2"), "budget is '2'; expected a number"),
        (dict(threads=0), "threads is 0; expected 1 to 1024"),
        (dict(threads=2.5), "threads is 2.5; expected a whole number"),
        (dict(cache=3), "cache is 3; expected a path"),
    ],
)
def test_what_is_no_setting_is_refused(given, words):
    with pytest.raises((gqa.GqaValueError, gqa.GqaTypeError)) as refused:
        gqa.configure(**{"tuning": "guess", **given})
    assert str(refused.value) == words
    assert _settings.configured == {}


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("GQA_TUNING", "later", "GQA_TUNING is 'later'; expected one of 'now', 'guess', 'cached-only'"),
        ("GQA_BUDGET", "soon", "GQA_BUDGET is 'soon'; expected seconds"),
        ("GQA_BUDGET", "0", "GQA_BUDGET is 0.0; expected more than 0, or None for the default"),
        ("GQA_THREADS", "two", "GQA_THREADS is 'two'; expected a whole number of threads"),
        ("GQA_THREADS", "-1", "GQA_THREADS is -1; expected 1 to 1024"),
    ],
)
def test_a_variable_that_means_nothing_is_named_at_the_first_call(made, monkeypatch, name, text, words):
    monkeypatch.setenv(name, text)
    with pytest.raises((gqa.GqaValueError, gqa.GqaTypeError)) as refused:
        _defaults.of("host")
    assert str(refused.value) == words
    assert not made


def test_in_a_process_of_its_own(tmp_path):
    said = run_python(
        f"""
import os
os.chdir({str(tmp_path)!r})
import gqa, numpy as np, time
q = np.ones((1, 16, 2, 32), np.float16)
gqa.configure(cache="mine.db", threads=1)
gqa.attention(q, q, q)
print(os.path.exists("mine.db"))
try:
    gqa.configure(threads=2)
except gqa.GqaValueError as error:
    print(str(error).split(";")[0])
gqa.configure(tuning="cached-only")
try:
    gqa.attention(q, q, q, causal=True)
except gqa.GqaError as error:
    print(type(error).__name__)
gqa.configure(tuning=None, budget=0.05)
begin = time.monotonic()
gqa.attention(q, q, q, causal=True)
print(time.monotonic() - begin < 5)
""",
        GQA_TUNING="now",
        GQA_CACHE=str(tmp_path / "environment.db"),
    )
    assert said.splitlines() == [
        "True",
        "threads is given, but the shared handle of host is made",
        "GqaError",
        "True",
    ]
    assert not (tmp_path / "environment.db").exists()


def test_handles_of_ones_own_are_as_they_say(monkeypatch, tmp_path):
    monkeypatch.setenv("GQA_TUNING", "cached-only")
    gqa.configure(tuning="cached-only")
    with gqa.Handle("host", cache_path=tmp_path / "own.db", tuning_budget=0.2) as own:
        gqa.attention(*make_qkv(), handle=own)
        gqa.flash_attn_func(*make_qkv(), handle=own)
