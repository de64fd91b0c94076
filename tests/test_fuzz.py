"""A short run of each campaign, and that the machine notices what it looks for."""

import ctypes
import importlib
import subprocess
import sys
import time

import pytest
from hypothesis import strategies as st

from tests.fuzz import _forked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


@pytest.mark.parametrize(
    ("name", "n_cases"),
    [("estimators", 100), ("oracles", 400), ("readers", 300), ("states", 300)],
)
@pytest.mark.filterwarnings("ignore")
def test_campaign(name, n_cases):
    module = importlib.import_module(f"tests.fuzz.{name}")
    assert _forked.run(module.cases, module.check, 20, n_cases) == n_cases


def crash(number):
    if number > 10:
        ctypes.string_at(0)


def wrong(number):
    assert number <= 10, "too large"


def hang(number):
    while number > 10:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("check", "text"),
    [(crash, "ended by signal 11"), (wrong, "too large")],
)
def test_findings_are_made_small(check, text):
    with pytest.raises(_forked.Finding, match="seed 3: ") as info:
        _forked.run(st.integers(0, 200), check, 3, 100)
    assert text in str(info.value)
    assert "\n11\n" in str(info.value)


def test_hang(monkeypatch):
    monkeypatch.setattr(_forked, "SECONDS_OF_A_CASE", 1.0)
    with pytest.raises(_forked.Finding, match="seed 3: a case did not end"):
        _forked.run(st.just(11), hang, 3, 100)


def test_command():
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "readers"]
    run = subprocess.run(
        [*command, "--seconds", "0.5", "--seed", "7"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "first seed 7" in run.stdout
    assert "200 cases, seeds 7 to 7" in run.stdout
