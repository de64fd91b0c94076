"""A short run of each campaign, and that the machine notices what it looks for."""

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = (
    "estimators", "oracles", "readers", "states", "lives", "graphs", "proofs", "packed",
    "saved",
)  # fmt: skip
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
ROOT = Path(__file__).parents[1]


def python(*arguments):
    """In a process of its own: libraries that other tests load do not like forks."""
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
def test_campaigns():
    """All in one process: to import the library takes longer than most of them."""
    run = python("-m", "tests.fuzz", "--seconds", "0", "--seed", "20", "--cases", "25")
    assert run.returncode == 0, run.stdout + run.stderr
    first, *rows = run.stdout.splitlines()
    assert first == "first seed 20"
    assert [row.split()[0] for row in rows] == list(NAMES)
    for row in rows:
        assert row.endswith("25 cases, seeds 20 to 20")


FINDINGS = """
import ctypes, time
from hypothesis import strategies as st
from tests.fuzz import _forked

def crash(number):
    if number > 10:
        ctypes.string_at(0)

def wrong(number):
    assert number <= 10, "too large"

def hang(number):
    while number > 10:
        time.sleep(0.01)

_forked.SECONDS_OF_A_CASE, _forked.WAITS = 1.0, 1
cases = st.just(11) if {name} is hang else st.integers(0, 200)
try:
    _forked.run(cases, {name}, 3, 100)
except _forked.Finding as finding:
    print(finding)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how"),
    [("crash", "ended by signal 11"), ("wrong", "failed"), ("hang", "did not end")],
)
def test_findings_are_made_small(name, how):
    run = python("-c", FINDINGS.format(name=name))
    assert run.stdout.startswith(f"seed 3: a case {how}:\n11\n"), (
        run.stdout + run.stderr
    )
