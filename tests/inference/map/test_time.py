"""Time limits and interrupts: kernels stop, whatever they were asked to do."""

import ctypes
import itertools
import signal
import subprocess
import sys
import threading
import time
from queue import SimpleQueue
from types import SimpleNamespace

import numpy as np
import pytest
from map_graphs import random_graph
from scipy import optimize
from scipy.optimize import OptimizeResult

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import (
    MAP_SOLVERS,
    MPLP,
    TRWS,
    Auto,
    HiGHS,
    _threads,
    auto,
    resolve_map_solver,
)
from sksstruct.inference.map.branch_and_bound import exact_search as search_module
from sksstruct.inference.map.core import solver as solver_module
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.gdmm._toplists import Lists
from sksstruct.inference.map.gdmm.state import MAPGDMMState
from sksstruct.inference.map.local_search import _rounds
from sksstruct.inference.map.local_search.search import LocalSearch
from sksstruct.inference.map.message_passing.sweeps import (
    MaxProductLP,
    TreeReweighted,
)


def frustrated(n=60, m=200, seed=0, **kind):
    rng = np.random.default_rng(seed)
    return random_graph(rng, n=n, m=m, states=(3, 5), **kind)


def late_problem(graph):
    problem = MAPProblem(graph)
    problem.limit_time(0.0)
    return problem


@pytest.mark.parametrize("kernel", [TreeReweighted, MaxProductLP])
def test_sweeps_stop(kernel):
    graph = frustrated()
    assert kernel(MAPProblem(graph)).sweep(False) < np.inf
    messages = kernel(late_problem(graph))
    before = np.array(messages.beliefs)
    # a sweep that was cut off has no bound
    assert messages.sweep(False) == np.inf
    assert np.count_nonzero(messages.beliefs != before) < 30


def test_searches_stop():
    graph = frustrated()
    start = np.zeros(graph.n_variables, dtype=np.int32)
    search = LocalSearch(late_problem(graph), start, 0)
    # without the clock this would take years
    search.anneal(10**15)
    search.windows(10**15, 20, 100.0)
    search.forests(10**15)
    search.conditional_modes()
    assert search.visited < 1000
    assert graph.score(search.labeling) >= graph.score(start) - 1e-9


def test_gdmm_stops():
    graph = frustrated()
    problem = late_problem(graph)
    state = MAPGDMMState(problem, Lists(problem, True), 1.0)
    state.sweep()
    assert state.bound() == np.inf
    assert MAPGDMMState(MAPProblem(graph), Lists(MAPProblem(graph)), 1.0).bound() < 1e9


def test_a_window_that_was_cut_off_changes_nothing():
    graph = frustrated(n=20, m=20)
    problem = MAPProblem(graph)
    start = np.zeros(20, dtype=np.int32)
    search = LocalSearch(problem, start, 0)
    problem.limit_time(0.0)
    assert not search.solve(1e6)
    np.testing.assert_array_equal(search.labeling, start)
    problem.limit_time(np.inf)
    assert search.solve(1e6)
    assert graph.score(search.labeling) > graph.score(start)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
@pytest.mark.parametrize("what", ["anneal", "windows", "forests"])
def test_interrupts_are_answered(what):
    """Within kernels that would run for years."""

    def interrupt(*_):
        raise KeyboardInterrupt

    graph = frustrated()
    search = LocalSearch(MAPProblem(graph), np.zeros(60, dtype=np.int32), 0)
    more = (20, 100.0) if what == "windows" else ()
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            getattr(search, what)(10**15, *more)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_the_clock_starts_with_the_call(monkeypatch):
    """What comes before the first iteration counts: here it takes 1000 seconds."""
    graph = frustrated()
    now = [0.0]

    class Slow(Reduced):
        def __init__(self, *args, **options):
            now[0] += 1000.0
            super().__init__(*args, **options)

    real = solver_module.time.perf_counter
    monkeypatch.setattr(solver_module, "Reduced", Slow)
    monkeypatch.setattr(solver_module.time, "perf_counter", lambda: real() + now[0])
    for solver in (TRWS(max_iter=10**6), Auto(effort=1e9)):
        result = solver.solve(graph, max_seconds=900.0, random_state=0)
        assert result.status == "time_limit"
        assert result.n_iter <= 1
        assert result.trace["seconds"][-1] >= 1000.0
        assert result.score == pytest.approx(graph.score(result.labeling))


def steps(monkeypatch, graph, limit):
    """What Auto does within a limit, by a clock that only goes when it is looked at."""
    now, done = itertools.count(), []

    def noted(of, name, what):
        real = getattr(of, name)

        def call(self, *arguments):
            done.append((what, self.run.seconds()))
            return real(self, *arguments)

        monkeypatch.setattr(of, name, call)

    with monkeypatch.context() as patch:
        monkeypatch = patch
        # so slow that the clock of the kernels, which is the real one, never matters
        patch.setattr(time, "perf_counter", lambda: 5.0 * next(now))
        patch.setattr(_rounds, "_SECONDS", 100.0)
        patch.setattr(auto, "_BUILD_SECONDS", 1e4)
        patch.setattr(auto, "build_seconds", lambda graph: 1000.0)
        patch.setattr(auto, "_ELIMINATE", 0.0)
        noted(_rounds._Rounds, "anneal", "round")
        noted(search_module.ExactSearch, "_set_up", "exact")
        Auto(20).solve(graph, max_seconds=limit, random_state=0)
    return done


@pytest.mark.slow
def test_what_comes_first_does_not_depend_on_the_limit(monkeypatch):
    """Local search before branch and bound is set up, whatever time is left."""
    graph, begin = frustrated(n=40, m=120), []
    # also where the search improves nothing
    monkeypatch.setattr(_rounds, "_IDLE_ROUNDS", np.inf)
    for limit in (2e3, 6e3, 1e4):
        done = steps(monkeypatch, graph, limit)
        first = [what for what, _ in done].index("exact") if limit > 2e3 else len(done)
        assert first > 5
        assert all(what == "round" for what, _ in done[:first])
        begin += [seconds for _, seconds in done[first:]][:1]
    # three times as long as that takes
    assert 3e3 <= begin[0] == begin[1]


@pytest.mark.slow
def test_a_search_that_improves_nothing_puts_off_no_step(monkeypatch):
    """After so many rounds without an improvement, and most visits, by counts alone."""
    graph, begin = frustrated(n=40, m=120), []
    for limit in (6e3, 1e4):
        done = [what for what, _ in steps(monkeypatch, graph, limit)]
        begin.append(done.index("exact"))
    assert begin == [_rounds._IDLE_ROUNDS] * 2
    search = _rounds.RoundSearch(SimpleNamespace(
        problem=SimpleNamespace(n_variables=40, max_states=2, n_edges=120),
        seconds=lambda: 0.0,
    ))  # fmt: skip
    search._spent, search._idle_work, search._n_idle = 100, 49, _rounds._IDLE_ROUNDS
    assert not search._is_idle()
    search._idle_work = 50
    assert search._is_idle()
    search._n_idle -= 1
    assert not search._is_idle()


def test_local_search_has_half_of_the_first_moments(monkeypatch):
    """And then nothing until that is its share of all time; nothing of tight bounds."""
    now = [0.0]
    run = SimpleNamespace(
        problem=SimpleNamespace(n_variables=40, max_states=2, n_edges=120),
        seconds=lambda: now[0],
        max_seconds=100.0,
        status=None,
        score=1.0,
        bound=2.0,
        lowest=-np.inf,
        offset=0.0,
        late=lambda: False,
    )
    search, spent = _rounds.RoundSearch(run), []

    def round_of(search):
        now[0] += 0.01
        search._seconds += 0.01
        return False

    monkeypatch.setattr(_rounds.RoundSearch, "_round", round_of)
    for _ in range(400):
        now[0] += 0.01
        search.keep_up()
        spent.append((now[0], search._seconds))
    passed, local = np.transpose(spent)
    early = (passed > 0.2) & (passed < 0.6)
    assert (local[early] > 0.35 * passed[early]).all()
    assert (local[early] <= 0.5 * passed[early]).all()
    assert local[passed < 1.2].max() == pytest.approx(0.3, abs=0.02)
    assert local[-1] / passed[-1] == pytest.approx(0.25, abs=0.02)
    run.bound, before = 1.01, search._seconds
    now[0] += 10.0
    search.keep_up()
    assert search._seconds == before


def test_tight_bounds_are_proved_first(monkeypatch):
    rng = np.random.default_rng(0)
    edges = list(itertools.combinations(range(12), 2))
    tables = rng.normal(size=(len(edges), 3, 3))
    graph = FactorGraph(np.zeros((12, 3)), edges, tables, offset=1e4)
    done = [what for what, _ in steps(monkeypatch, graph, 1e5)]
    assert done[0] == "exact"


@pytest.mark.parametrize("name", sorted(set(MAP_SOLVERS) - {"cp_sat", "toulbar2"}))
def test_every_solver_returns_at_once(name):
    """A limit that has passed before anything runs: a labeling, and a valid bound."""
    rng = np.random.default_rng(0)
    states = (2, 2) if name == "gdmm_binary" else (3, 5)
    graph = random_graph(rng, n=30, m=90, states=states)
    solver = resolve_map_solver(name)
    result = solver.solve(graph, max_seconds=1e-9, random_state=0)
    assert result.status == "time_limit"
    assert result.score == pytest.approx(graph.score(result.labeling))
    best = Auto().solve(graph, random_state=0)
    assert result.bound >= best.score - 1e-6


def test_highs_is_left_behind():
    """Where HiGHS does not look at its clock, the caller goes on without it."""
    rng = np.random.default_rng(0)
    edges = [tuple(rng.choice(40, 2, replace=False)) for _ in range(200)]
    graph = FactorGraph(np.zeros((40, 12)), edges, list(rng.random((200, 12, 12))))
    result = HiGHS().solve(graph, max_seconds=0.2, random_state=0)
    assert result.status == "time_limit"
    assert result.bound >= result.score


@pytest.mark.parametrize(
    "limit, nodes, status",
    [(1.0, 3, "time_limit"), (1.0, 5, "max_iter"), (None, 5, "max_iter")],
)
def test_highs_says_which_limit_it_reached(limit, nodes, status):
    """Its own limit of time ends before that of the run, which is not late then."""
    found = OptimizeResult(status=1, mip_node_count=nodes)
    run = SimpleNamespace(late=lambda: False, max_seconds=limit)
    assert HiGHS(max_iter=5)._status(found, run) == status


@pytest.mark.filterwarnings("error")
def test_highs_is_late_as_it_starts():
    """The limit passes between the look at the clock and the option of HiGHS."""
    graph = frustrated()
    run = SimpleNamespace(late=lambda: False, max_seconds=1.0, seconds=lambda: 1.1)
    found = HiGHS(relaxed=True)._solve_program(graph, int(graph.first_state[-1]), run)
    assert "Time limit" in found.message


def test_an_interrupt_anywhere_leaves_no_lock(monkeypatch):
    """The thread of HiGHS ends, whatever its caller was at."""
    monkeypatch.setattr(_threads, "_TICK", 0.002)
    threads, tracer = set(sys._current_frames()), sys.gettrace()
    at_work = set(_threads._AT_WORK)

    def interrupted(at, gate):
        """Whether the event with this number, a call or a line, came."""
        events = itertools.count(1)

        def stop():
            gate.put(True)

        def interrupt(*_):
            if next(events) == at:
                raise KeyboardInterrupt
            return interrupt

        sys.settrace(interrupt)
        try:
            return not _threads.in_thread(gate.get, stop)
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(tracer)

    for at in itertools.count(1):
        gate = SimpleQueue()
        went_on = interrupted(at, gate)
        gate.put(True)
        end = time.monotonic() + 10.0
        # both are asked, as the thread may have the number of one that an earlier test
        # left behind and that has ended since
        while not (
            threads.issuperset(sys._current_frames())
            and at_work.issuperset(_threads._AT_WORK)
        ):
            assert time.monotonic() < end, f"a thread hangs after event {at}"
            time.sleep(0.001)
        if not went_on:
            break
    assert at > 10


# Each way of leaving HiGHS behind in a process of its own.
_LEFT_BEHIND = """
import _thread, ctypes, os, sys, threading, time
from sksstruct.inference.map import _threads

def long():
    time.sleep(600)

def wait_for_thread():
    while not _threads._AT_WORK:
        time.sleep(0.001)

def after_the_limit():
    assert _threads.in_thread(long, lambda: True) is None
    wait_for_thread()

def interrupted_at_the_start():
    start = _thread.start_new_thread
    def interrupted(*call):
        start(*call)
        wait_for_thread()
        raise KeyboardInterrupt
    _thread.start_new_thread = interrupted
    try:
        _threads.in_thread(long, lambda: False)
    except KeyboardInterrupt:
        return
    raise AssertionError

def with_threads_that_wait():
    call = _threads.in_thread, (long, lambda: False)
    threading.Thread(target=call[0], args=call[1], daemon=True).start()
    wait_for_thread()

def interrupted_at_the_end():
    after_the_limit()
    def interrupted(seconds):
        raise KeyboardInterrupt
    time.sleep = interrupted

# what the destructors of a library do to threads that use it
libc = ctypes.CDLL(None)
libc.on_exit(libc.abort, None)
_threads._MOMENT = 0.2
after_the_limit()
for leave in (after_the_limit, interrupted_at_the_start, with_threads_that_wait,
              interrupted_at_the_end):
    child = os.fork()
    if not child:
        # threads do not survive a fork
        assert not _threads._AT_WORK
        leave()
        print("flushed")
        sys.exit(3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(leave.__name__, status, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "on_exit") if sys.platform == "linux" else True,
    reason="needs the C library of GNU",
)
def test_a_process_ends_while_highs_is_at_work():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LEFT_BEHIND],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    ways = (
        "after_the_limit", "interrupted_at_the_start", "with_threads_that_wait",
        "interrupted_at_the_end",
    )  # fmt: skip
    expected = "".join(f"flushed\n{way} 3\n" for way in ways)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_limits_that_are_not_reached_change_nothing():
    graph = frustrated()
    for solver in (TRWS(max_iter=30), MPLP(max_iter=30)):
        free = solver.solve(graph, random_state=0)
        limited = solver.solve(graph, random_state=0, max_seconds=1e6)
        assert free.score == limited.score
        assert free.bound == limited.bound
        np.testing.assert_array_equal(free.labeling, limited.labeling)


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None) if sys.platform == "linux" else None, "on_exit"),
    reason="needs the C library of GNU",
)
def test_what_highs_prints_is_not_seen(monkeypatch, capfd):
    """HiGHS has messages that go to standard output whatever its options are."""
    libc, milp = ctypes.CDLL(None), optimize.milp
    # HiGHS may still be at work for a test whose limit has passed: it is silenced too
    end = time.perf_counter() + 60.0
    while _threads._AT_WORK and time.perf_counter() < end:
        time.sleep(0.01)
    assert not _threads._AT_WORK

    def talkative(*arguments, **options):
        libc.puts(b"HiGHS says")
        # the line in one piece, as other threads write too
        print("Python says\n", end="", flush=True)
        return milp(*arguments, **options)

    monkeypatch.setattr(optimize, "milp", talkative)
    graph = random_graph(np.random.default_rng(0))
    threads = [threading.Thread(target=HiGHS().solve, args=(graph,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert HiGHS().solve(graph).status == "optimal"
    libc.puts(b"others say")
    libc.fflush(None)
    expected = ["Python says"] * 5 + ["others say", ""]
    assert capfd.readouterr().out.split("\n") == expected
