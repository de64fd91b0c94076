"""The relaxation as a linear program, and MAP as an integer program, by HiGHS."""

import _thread
import atexit
import contextlib
import ctypes
import os
import sys
import time
from dataclasses import KW_ONLY, dataclass
from queue import Empty, SimpleQueue

import numpy as np

from sksstruct.inference.map.core._decode import by_variable, decode
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.utils.progress import Status

# Columns of the program beyond which it is refused, before memory is taken.
_MAX_COLUMNS = 4_000_000
# Share of the time left that HiGHS gets, and seconds between looks at the clock.
_SHARE, _TICK = 0.9, 0.05
# Seconds that threads get at the end of the process.
_MOMENT = 2.0
# What threads that HiGHS is at work in will answer to.
_AT_WORK = set()
if hasattr(os, "register_at_fork"):
    # the threads are not copied
    os.register_at_fork(after_in_child=_AT_WORK.clear)
# What HiGHS takes for infinite is 1e20: larger costs are divided by a power of two.
_LARGE = 1e18
# Statuses of `scipy.optimize.milp`.
_SOLVED, _LIMIT, _INFEASIBLE = range(3)


@dataclass(eq=False, repr=False)
class HiGHS(MAPSolver):
    """MAP as an integer program, or its LP relaxation, by SciPy's HiGHS: a reference.

    The local polytope has a column for each state and for each entry of each table.

    Parameters
    ----------
    relaxed : bool, default=False
        Whether the variables of the program may be fractional. This is the LP
        relaxation. Otherwise, HiGHS solves the MAP problem itself by branch and bound.
    tol : float, default=1e-6
        A labeling is optimal if its score is within ``tol * max(1, |score|)`` of the
        bound; if all scores are far below 1, any labeling is.
    max_iter : int, default=1000000
        Maximum number of nodes of branch and bound. No effect with `relaxed`.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import HiGHS
    >>> ring = FactorGraph([[0, 0], [0, 0], [0, 0]], [(0, 1), (1, 2), (2, 0)],
    ...                    Potts(2, 0.0, 1.0))
    >>> relaxation = HiGHS(relaxed=True).solve(ring)
    >>> round(relaxation.bound, 6), relaxation.status
    (3.0, 'fractional')
    >>> round(HiGHS().solve(ring).bound, 6)
    2.0
    """

    relaxed: bool = False
    _: KW_ONLY
    tol: float = 1e-6
    max_iter: int = 1_000_000

    _pairwise = False
    _allowed = {**MAPSolver._allowed, "relaxed": [bool]}

    def _run(self, run):
        graph = run.problem.graph
        n = int(graph.first_state[-1])
        found = _in_thread(lambda: self._solve_program(graph, n, run), run)
        if found is None:
            # the limit has passed while HiGHS was busy
            run.offer(np.zeros(graph.n_variables, dtype=np.int32))
            run.report()
            return
        if found.x is None:
            run.offer(np.zeros(graph.n_variables, dtype=np.int32))
        else:
            flat = np.clip(found.x[:n], 0.0, 1.0)
            decode(run, flat)
            run.marginals = by_variable(run.problem, flat)
        run.report(bound=self._bound(found))
        if found.status == _INFEASIBLE:
            run.status = Status.INFEASIBLE
        elif run.status in (None, "max_iter"):
            run.status = self._status(found, run)

    def _solve_program(self, graph, n_unary, run):
        """SciPy's solution; unless `relaxed`, the marginals of variables are integral.

        None where the time limit passes first.
        """
        made = program(graph, run.late)
        if made is None or run.late():
            return None
        cost, rows, low, high = made
        options = {}
        if run.max_seconds is not None:
            left = run.max_seconds - run.seconds()
            # HiGHS would ignore a negative limit, and run on
            options["time_limit"] = max(0.0, _SHARE * left)
        integrality = None
        if not self.relaxed:
            # well below tol, which is what decides whether the labeling is optimal
            options["mip_rel_gap"] = self.tol * 1e-2
            options["node_limit"] = self.max_iter
            # tables need no constraint: they are integral where variables are
            integrality = np.r_[np.ones(n_unary), np.zeros(len(cost) - n_unary)]
        return _milp(cost, rows, low, high, integrality=integrality, options=options)

    def _bound(self, found):
        """Upper bound of all scores; None where the program was not solved."""
        if not self.relaxed:
            bound = getattr(found, "mip_dual_bound", None)
            return None if bound is None else -bound
        if found.status != _SOLVED:
            return None
        # the bound is the value of a solved program, up to its tolerances
        return -found.fun + 1e-9 * abs(found.fun)

    def _status(self, found, run):
        """Status of a run whose labeling was not found to be optimal."""
        if found.status == _SOLVED and self.relaxed:
            return "fractional"
        # its own limit ends a little earlier than that of the run
        timed = found.status == _LIMIT and run.max_seconds is not None
        nodes = found.get("mip_node_count") or 0
        return "time_limit" if timed and nodes < self.max_iter else "max_iter"


def _milp(scores, rows, low, high, **options):
    """SciPy's solution of the program that maximizes the sum of scores."""
    from scipy import optimize

    largest = abs(scores).max(initial=0.0)
    scale = 2.0 ** np.floor(np.log2(largest)) if largest > _LARGE else 1.0
    with _SILENCE:
        found = optimize.milp(
            -scores / scale,
            constraints=optimize.LinearConstraint(rows, low, high),
            bounds=optimize.Bounds(0.0, 1.0),
            **options,
        )
    for name in ("fun", "mip_dual_bound"):
        if found.get(name) is not None:
            found[name] *= scale
    return found


class _Silence:
    """Discards what C code prints, while any thread is within.

    HiGHS has messages that none of its options turns off. The file descriptor stays as
    it is, and with it what Python prints meanwhile. Other C libraries than GNU's have
    no variable that may be set.
    """

    def __init__(self):
        libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._stream = None
        if hasattr(libc, "gnu_get_libc_version"):
            self._stream = ctypes.c_void_p.in_dll(libc, "stdout")
            libc.fopen.restype = ctypes.c_void_p
            self._given = self._stream.value
            self._nowhere = libc.fopen(os.devnull.encode(), b"w")
        self.begin()

    def begin(self):
        """No thread is within."""
        self._lock, self._depth = _thread.allocate_lock(), 0
        self._move(0)

    def __enter__(self):
        self._move(1)

    def __exit__(self, *error):
        self._move(-1)

    def _move(self, step):
        with self._lock:
            self._depth += step
            # without a file for it, as where too many are open, nothing changes
            if self._stream is not None and self._nowhere:
                self._stream.value = self._nowhere if self._depth else self._given


_SILENCE = _Silence()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SILENCE.begin)


def _in_thread(solve, run):
    """What a function returns; None where the run is late.

    HiGHS answers no interrupts, and looks at its clock between steps that may be long:
    here the caller goes on, and the thread ends when HiGHS looks.

    An interrupt can come before any line of Python, also within `threading` and
    `concurrent.futures`, whose locks it would leave taken. What is used here is
    compiled.
    """
    answer = SimpleQueue()

    def work():
        # by the thread itself: whoever waits for it may be gone
        _AT_WORK.add(answer)
        try:
            answer.put((solve(), None))
        except BaseException as error:
            answer.put((None, error))
        finally:
            _AT_WORK.discard(answer)

    # the interpreter does not wait for such a thread at its end
    _thread.start_new_thread(work, ())
    while True:
        try:
            found, error = answer.get(timeout=_TICK)
            break
        except Empty:
            if run.late():
                return None
    if error is not None:
        raise error
    return found


@atexit.register
def _end_at_once():
    """Let the process end while HiGHS is at work.

    A thread that comes back to the interpreter while that ends aborts the process:
    those that are nearly done get a moment. Destructors of its library, which run last
    of all, could abort it as well.
    """
    end = time.monotonic() + _MOMENT
    while _AT_WORK and time.monotonic() < end:
        # one more interrupt changes nothing: this is the end
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(0.2 * _TICK)
    libc = ctypes.CDLL(None) if _AT_WORK and sys.platform == "linux" else None
    if hasattr(libc, "on_exit"):
        # called with the status, before all that is registered by now
        libc.on_exit(libc._exit, None)


def solve_relaxation(graph):
    """A solution of the relaxation of a graph with finite scores.

    Parameters
    ----------
    graph : FactorGraph
        Variables with the same number of states, edges, and tables of larger factors.

    Returns
    -------
    nodes : ndarray of shape (n_variables, n_states)
        Marginals of the variables.
    edges : ndarray of shape (n_edges, n_states, n_states)
        Marginals of the edges.
    factors : list of ndarray
        Marginals of the larger factors, flat.
    """
    cost, rows, low, high = program(graph)
    found = _milp(cost, rows, low, high)
    if found.status != 0:
        raise RuntimeError(f"the linear program was not solved: {found.message}")
    n, K = graph.n_variables, int(graph.n_states[0])
    ends = n * K + np.cumsum(
        [graph.n_edges * K * K, *(K ** len(scope) for scope in graph.factor_scopes)]
    )
    nodes, edges, *factors = np.split(found.x, [n * K, *ends[:-1]])
    return nodes.reshape(n, K), edges.reshape(-1, K, K), factors


def program(graph, late=lambda: False):
    """The local polytope of a graph with finite scores; None if time is over.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    late : callable, default=lambda: False
        Whether time is over.

    Returns
    -------
    cost : ndarray of shape (n_columns,)
        Scores: of the states of all variables, then of the entries of all tables.
    rows : CSR matrix of shape (n_rows, n_columns)
        Constraints.
    low, high : ndarrays of shape (n_rows,)
        Their bounds.
    """
    first = graph.first_state
    n = int(first[-1])
    factors = list(graph._listed())
    sizes = [int(np.prod(t.shape)) for _, t, _ in factors if not _is_logic(t)]
    columns = n + sum(sizes)
    if columns > _MAX_COLUMNS:
        raise ValueError(
            f"the linear program would have {columns} columns: use another solver"
        )
    parts = _Rows()
    for v in range(graph.n_variables):
        parts.add(np.arange(first[v], first[v + 1]), 1.0, 1.0, 1.0)
    costs, at = [np.asarray(graph.unaries)], n
    for scope, table, weight in factors:
        if late():
            return None
        if _is_logic(table):
            _add_condition(parts, table, first[scope])
            continue
        costs.append(weight * table.dense().reshape(-1))
        index = at + np.arange(len(costs[-1])).reshape(table.shape)
        _add_marginals(parts, index, first[scope])
        at += index.size
    return np.concatenate(costs), *parts.build(at)


def _is_logic(table):
    return table.condition is not None


class _Rows:
    """Constraints low <= row x <= high, collected one by one."""

    def __init__(self):
        self.columns, self.values, self.sizes = [], [], []
        self.low, self.high = [], []

    def add(self, columns, values, low, high):
        """Add a row by its columns, their values (or the value of all), and bounds."""
        self.columns.append(columns)
        self.values.append(np.broadcast_to(values, len(columns)))
        self.sizes.append(len(columns))
        self.low.append(low)
        self.high.append(high)

    def add_all(self, columns, values, low, high):
        """Add rows with the same values and bounds, by their columns, row by row."""
        n, width = columns.shape
        self.columns.append(columns.reshape(-1))
        self.values.append(np.tile(values, n))
        self.sizes += [width] * n
        self.low += [low] * n
        self.high += [high] * n

    def build(self, n_columns):
        """All rows as a matrix, and their bounds."""
        from scipy import sparse

        rows = np.repeat(np.arange(len(self.sizes)), self.sizes)
        shape = (len(self.sizes), n_columns)
        entries = np.concatenate(self.values), (rows, np.concatenate(self.columns))
        return (
            sparse.csr_matrix(entries, shape),
            np.array(self.low),
            np.array(self.high),
        )


def _add_marginals(parts, index, first):
    """Make the entries of a table, the columns in index, sum to marginals of states."""
    for axis, start in enumerate(first):
        entries = np.moveaxis(index, axis, 0).reshape(index.shape[axis], -1)
        states = start + np.arange(len(entries))[:, None]
        values = np.append(np.ones(entries.shape[1]), -1.0)
        parts.add_all(np.hstack([entries, states]), values, 0.0, 0.0)


def _add_condition(parts, table, first):
    """The convex hull of a condition, in terms of P(x = 1) of its variables."""
    columns = first + 1
    # a literal is constant + sign * P
    sign = np.where(table.negated, -1.0, 1.0)
    constant = table.negated.astype(np.float64)

    def add(coefficients, low, high):
        shift = float(np.dot(coefficients, constant))
        parts.add(columns, coefficients * sign, low - shift, high - shift)

    n, kind = len(columns), table.condition
    bounds = {
        "xor": (1.0, 1.0),
        "atmostone": (-np.inf, 1.0),
        "or": (1.0, np.inf),
        "budget": (-np.inf, table.limit),
        # the sum of the inputs minus the output
        "xorout": (0.0, 0.0),
        "orout": (0.0, np.inf),
    }
    ones = np.ones(n)
    if kind in ("xorout", "orout"):
        ones[-1] = -1.0
    add(ones, *bounds[kind])
    if kind == "orout":
        # no input is above the output
        for k in range(n - 1):
            pair = np.zeros(n)
            pair[k], pair[-1] = 1.0, -1.0
            add(pair, -np.inf, 0.0)
