"""The relaxation as a linear program, and MAP as an integer program, by HiGHS.

The program is that of `_local_polytope`, for which HiGHS takes far more time and memory
than the other solvers: it serves as a reference. `packing` gives HiGHS smaller
programs. HiGHS runs in a thread, as it reacts neither to interrupts nor, between long
steps, to its time limit. SciPy is imported where a program is solved: a process that
solves no program needs no SciPy.
"""

import _thread
import ctypes
import os
import sys
from dataclasses import KW_ONLY, dataclass

import numpy as np

from sksstruct.inference.map._local_polytope import program, program_size
from sksstruct.inference.map._threads import in_thread
from sksstruct.inference.map.core._decode import by_variable, decode
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.utils._parameters import POSITIVE
from sksstruct.utils.progress import Status

# Bytes of memory for each nonzero of the program, as measured on twenty graphs: the
# program itself, and the copies, bounds and bases that HiGHS makes of it. Branch and
# bound takes more memory, growing with every node.
_BYTES_RELAXED, _BYTES_INTEGER = 800.0, 1500.0
# Share of the remaining time that HiGHS gets.
_SHARE = 0.9
# HiGHS takes costs from 1e20 on as infinite: large costs are divided by a power of two.
_LARGE = 1e18
# Error of values and bounds of such programs, relative to the largest score.
_SCALED_ERROR = 5e-7
# Statuses of `scipy.optimize.milp`.
_SOLVED, _LIMIT, _INFEASIBLE = range(3)


@dataclass(eq=False, repr=False)
class HiGHS(MAPSolver):
    """MAP as an integer program, or its LP relaxation, by SciPy's HiGHS: a reference.

    The local polytope has a column for each state and for each entry of each table.
    With large tables, the program takes much more time and memory than the other
    solvers. The program is refused before it is built if it would take more than
    `max_megabytes`.

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
    max_megabytes : float, default=1000
        Largest memory of the program, in MB. The memory is estimated from the number of
        nonzeros: 0.8 kB for each with `relaxed`, otherwise 1.5 kB. Branch and bound can
        take more.

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
    max_megabytes: float = 1000.0

    _pairwise = False
    _allowed = {**MAPSolver._allowed, "relaxed": [bool], "max_megabytes": POSITIVE}

    def _check_graph(self, graph):
        n_rows, n_columns, n = program_size(graph)
        needed = n * (_BYTES_RELAXED if self.relaxed else _BYTES_INTEGER) / 1e6
        if needed > self.max_megabytes:
            argument = "relaxed=True, " if self.relaxed else ""
            raise ValueError(
                f"the linear program of this graph would have {n_rows:,.0f} rows, "
                f"{n_columns:,.0f} columns and {n:,.0f} nonzeros, and take about "
                f"{needed:.4g} MB, more than max_megabytes={self.max_megabytes:g}: use "
                "solver='auto', or, if there is so much memory, "
                f"HiGHS({argument}max_megabytes={_round_up(needed)})"
            )

    def _run(self, run):
        graph = run.problem.graph
        n = int(graph.first_state[-1])
        found = in_thread(lambda: self._solve_program(graph, n, run), run.late)
        if found is None:
            # the limit has passed before HiGHS returned
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
        """Return SciPy's solution, or None where the time limit passes first.

        Unless `relaxed`, the marginals of variables are integral.
        """
        made = program(graph, run.late)
        if made is None or run.late():
            return None
        cost, rows, low, high = made
        options = {}
        if run.max_seconds is not None:
            left = run.max_seconds - run.seconds()
            # HiGHS ignores negative limits
            options["time_limit"] = max(0.0, _SHARE * left)
        integral = None
        if not self.relaxed:
            # Well below tol: the run compares score and bound by tol itself.
            options["mip_rel_gap"] = self.tol * 1e-2
            options["node_limit"] = self.max_iter
            # integral marginals of variables make marginals of tables integral
            integral = np.arange(len(cost)) < n_unary
        return solve_program(cost, rows, low, high, integral, options=options)

    def _bound(self, found):
        """Return an upper bound on all scores, or None."""
        if not self.relaxed:
            bound = getattr(found, "mip_dual_bound", None)
            return None if bound is None else found.error - bound
        if found.status != _SOLVED:
            return None
        # the value of the program is exact only up to the tolerances of HiGHS
        return -found.fun + 1e-9 * abs(found.fun) + found.error

    def _status(self, found, run):
        """Return the status of a run whose labeling is not proved optimal."""
        if found.status == _SOLVED and self.relaxed:
            return "fractional"
        # HiGHS gets a little less time than the run has
        timed = found.status == _LIMIT and run.max_seconds is not None
        nodes = found.get("mip_node_count") or 0
        return "time_limit" if timed and nodes < self.max_iter else "max_iter"


def _round_up(megabytes):
    """Return a number, rounded up to two significant digits, as text."""
    unit = 10.0 ** np.floor(np.log10(megabytes) - 1.0)
    return f"{np.ceil(megabytes / unit) * unit:g}"


def solve_program(scores, rows, low, high, integral=None, most=1.0, options=None):
    """Return SciPy's solution of the program that maximizes the sum of scores.

    Parameters
    ----------
    scores : ndarray of shape (n_columns,)
        Finite scores of the columns.
    rows : CSR matrix of shape (n_rows, n_columns)
        Constraints.
    low, high : ndarrays of shape (n_rows,)
        Bounds of the constraints.
    integral : ndarray of bool of shape (n_columns,), default=None
        Which columns have to be whole; None: the linear program is solved.
    most : float or ndarray of shape (n_columns,), default=1.0
        Upper bounds of the columns, which are at least 0.
    options : dict, default=None
        Passed to `scipy.optimize.milp`.

    Returns
    -------
    found : OptimizeResult
        The solution; `fun` and `mip_dual_bound` are minus the scores, and can be None.
        `error` is a bound on their error where scores are so large that they were
        scaled down, otherwise 0.
    """
    from scipy import optimize

    largest = abs(scores).max(initial=0.0)
    scale = 2.0 ** np.floor(np.log2(largest)) if largest > _LARGE else 1.0
    with _SILENCE:
        found = optimize.milp(
            -scores / scale,
            constraints=optimize.LinearConstraint(rows, low, high),
            bounds=optimize.Bounds(0.0, most),
            integrality=integral,
            options=options,
        )
    for name in ("fun", "mip_dual_bound"):
        if found.get(name) is not None:
            found[name] *= scale
    # the tolerances of HiGHS are absolute
    found["error"] = _SCALED_ERROR * largest if scale > 1.0 else 0.0
    return found


class _Silence:
    """Context that discards the output of C code while any thread is in the context.

    HiGHS has messages that none of its options turns off. The context sets the variable
    ``stdout`` of GNU's C library to another stream. The file descriptor does not
    change: output of Python in the meantime is not lost. With other C libraries, whose
    ``stdout`` is no variable, the context does nothing.
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
        """Set up the state in which no thread is in the context."""
        self._lock, self._depth = _thread.allocate_lock(), 0
        self._move(0)

    def __enter__(self):
        self._move(1)

    def __exit__(self, *error):
        self._move(-1)

    def _move(self, step):
        with self._lock:
            self._depth += step
            # the stream is NULL where the process has too many open files
            if self._stream is not None and self._nowhere:
                self._stream.value = self._nowhere if self._depth else self._given


_SILENCE = _Silence()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SILENCE.begin)


def solve_relaxation(graph):
    """Return a solution of the relaxation of a graph with finite scores.

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
    found = solve_program(cost, rows, low, high)
    if found.status != 0:
        raise RuntimeError(f"the linear program was not solved: {found.message}")
    n, K = graph.n_variables, int(graph.n_states[0])
    ends = n * K + np.cumsum(
        [graph.n_edges * K * K, *(K ** len(scope) for scope in graph.factor_scopes)]
    )
    nodes, edges, *factors = np.split(found.x, [n * K, *ends[:-1]])
    return nodes.reshape(n, K), edges.reshape(-1, K, K), factors
