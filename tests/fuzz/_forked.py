"""Cases of a campaign in a child process, so that a crash is a finding too."""

import faulthandler
import mmap
import os
import signal
import sys
import time
import traceback
import warnings
from contextlib import suppress

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky

# A case that takes longer is a hang: of its own time, or some times as much where it
# waits. A busy machine may leave it none for long.
SECONDS_OF_A_CASE, WAITS = 20.0, 6
_TEXT, _NUMBERS = 1 << 16, 24


class Finding(AssertionError):
    """A case that crashed, hung or gave a wrong answer."""


class _Notes:
    """Memory that a child shares with its parent: its count, time and last words.

    Numbers have eight bytes each, which are written at once: the parent reads none that
    is half there, however the child ends.
    """

    def __init__(self):
        self.memory = mmap.mmap(-1, _TEXT)
        self.numbers = memoryview(self.memory)[:_NUMBERS].cast("d")

    def write(self, count, text=""):
        self.numbers[0] = count
        self.numbers[1], self.numbers[2] = time.monotonic(), time.process_time()
        line = text.encode()[: _TEXT - _NUMBERS - 1] + b"\0"
        self.memory[_NUMBERS : _NUMBERS + len(line)] = line

    def read(self):
        """Count, moment, processor time until then, and text."""
        text = self.memory[_NUMBERS:].split(b"\0", 1)[0].decode(errors="replace")
        count, moment, ran = self.numbers
        return int(count), moment, ran, text

    @property
    def count(self):
        return self.read()[0]

    @property
    def text(self):
        return self.read()[3]


def _ran(pid):
    """Processor time of a process in seconds; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _hangs(pid, notes):
    _, moment, ran, _ = notes.read()
    waited = time.monotonic() - moment
    if waited < SECONDS_OF_A_CASE:
        return False
    long = WAITS * SECONDS_OF_A_CASE
    return waited > long or _ran(pid) - ran > SECONDS_OF_A_CASE


def _wait(pid, notes):
    """Exit status of a child; one whose case does not end is killed."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if _hangs(pid, notes):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "hang"
        time.sleep(0.002)


def in_child(work):
    """Call ``work(note)`` in a fork; return its exit status and last note."""
    notes = _Notes()
    notes.write(0)
    pid = os.fork()
    if pid == 0:
        with open(os.devnull, "w") as nowhere:
            faulthandler.disable()
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
            status = 1
            with suppress(BaseException):
                try:
                    work(notes.write)
                    status = 0
                except BaseException:
                    notes.write(notes.count, traceback.format_exc()[-_TEXT // 2 :])
            os._exit(status)
    return _wait(pid, notes), notes


def _examples(strategy, check, number, n_cases, phases):
    options = settings(
        max_examples=n_cases,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    return seed(number)(options(given(strategy)(check)))


def run(strategy, check, number, n_cases):
    """Check many cases in one child; shrink the first that fails.

    Parameters
    ----------
    strategy : hypothesis strategy
        Cases.
    check : callable
        Called with a case; raises if the case is a finding.
    number : int
        Seed.
    n_cases : int
        Number of cases.

    Returns
    -------
    n_checked : int
        Cases that were checked.

    Raises
    ------
    Finding
        With the smallest case that hypothesis found, and its seed.
    """

    def all_cases(note):
        count = 0

        def counted(case):
            nonlocal count
            count += 1
            note(count)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(case)

        _examples(strategy, counted, number, n_cases, [Phase.generate])()

    status, notes = in_child(all_cases)
    count = notes.count
    if status == 0:
        return count

    def alone(case):
        status, notes = in_child(lambda note: check(case))
        if status != 0:
            how = {1: "failed", "hang": "did not end"}.get(status)
            how = how or f"ended by signal {-status}"
            raise Finding(f"a case {how}:\n{case!r}\n{notes.text}")

    phases = [Phase.generate, Phase.shrink]
    try:
        _examples(strategy, alone, number, n_cases, phases)()
    except Finding as found:
        raise Finding(f"seed {number}: {found}") from None
    except Flaky as error:
        words = f"{error}\n{notes.text}"
        raise Finding(f"seed {number}: status {status}, not always:\n{words}") from None
    raise Finding(
        f"seed {number}, case {count}: status {status}, only after other cases:\n"
        f"{notes.text}"
    )


def main_loop(campaigns, seconds, number, n_cases=200):
    """Run campaigns in turn until the time is over, once at least; print a table.

    Parameters
    ----------
    campaigns : dict of str to (strategy, check)
        What to run.
    seconds : float
        Time for all.
    number : int
        First seed.
    n_cases : int, default=200
        Cases of a campaign in one turn.

    Returns
    -------
    n_findings : int
        Number of turns that ended with a finding.
    """
    start, cases, found = time.monotonic(), dict.fromkeys(campaigns, 0), 0
    turn = number
    while turn == number or time.monotonic() - start < seconds:
        for name, (strategy, check) in campaigns.items():
            try:
                cases[name] += run(strategy, check, turn, n_cases)
            except Finding as finding:
                found += 1
                print(f"{name}: {finding}", flush=True)
        turn += 1
    for name, count in cases.items():
        print(f"{name:12} {count:9d} cases, seeds {number} to {turn - 1}")
    sys.stdout.flush()
    return found
