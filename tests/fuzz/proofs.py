"""Proofs of small problems with hard constraints, and enumeration that knows better.

Graphs so small are solved before branch and bound sees them: here it begins from any
labeling and after a few sweeps, and what keeps it from splitting them is taken away.
"""

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import Auto, BranchAndBound, auto
from sksstruct.inference.map.branch_and_bound import (
    _best_first,
    _cluster_tree,
    _simplify,
    _terms,
)
from sksstruct.inference.map.branch_and_bound._terms import sweep_until_stalled
from sksstruct.inference.map.branch_and_bound.exact_search import ExactSearch
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.run import MAPRun
from sksstruct.inference.map.message_passing.sweeps import TreeReweighted
from sksstruct.inference.map.tightening.tighten import Tightening
from sksstruct.utils.progress import Status
from tests.fuzz._draws import decoded

# of labelings, which are all tried
MOST = 30_000
# Costs of a table, as places of numbers: soft ones, ones that only tell two kinds of
# labelings apart, and hard ones.
SOFT, UNITS, HARD = [0, 0, 0, 1, 2, 3, 4, 5], [0, 0, 1], [0, 0, 0, 1, 9, 9, 9, 9]
NUMBERS = np.array([
    [0, 1, 2, 3, 5, 8, 13, 29, 0, np.inf],
    [0, 1, 7, 20, 100_000, 100_001, 3, 4, 0, np.inf],
    [0, 1, -3, -1, 5, 2, 6, -2, 0, np.inf],
    [0, 1, 10**9, 10**9 + 1, 10**6, 2, 3, 4, 0, np.inf],
    [0, 0.1, 0.25, 1 / 3, -0.7, 2.5, 1e-3, 4, 0, np.inf],
])  # fmt: skip
SHIFTS = np.array([0.0, 0.0, 0.0, 1.0, 10.0**6, -(10.0**9)])
TOL = 1e-6


def _consistent(network, late):
    """No sweeps, which leave little to a search of so few variables."""
    return network.make_consistent()


def _factors(draws, sizes, numbers, planted):
    """Scopes, scores, shifts: all over the graph, or near, so that it falls apart."""
    n, wide = len(sizes), draws.choice([20, 4, 1])
    for _ in range(n // 2 + draws.integer(0, 2 * n)):
        arity = min(draws.choice([2, 3, 2, 4, 3, 1]), n)
        first = draws.integer(0, n - arity)
        near = list(range(first, min(n, first + arity + wide)))
        scope = [near.pop(draws.integer(0, len(near) - 1)) for _ in range(arity)]
        which = draws.choice([np.array(row) for row in (SOFT, UNITS, HARD)])
        table = -numbers[draws.array([sizes[v] for v in scope], which)]
        # a labeling that is allowed, where all others are seldom
        for x in planted:
            table[tuple(x[v] for v in scope)] = -numbers[draws.choice([0, 0, 0, 1])]
        yield scope, table, draws.choice(SHIFTS)


def _case(draws):
    sizes = []
    for _ in range(draws.choice([14, 12, 9, 3])):
        k = draws.choice([2, 2, 3, 2, 2, 1])
        sizes += [k] if k * np.prod(sizes) <= MOST else []
    numbers = draws.choice(NUMBERS[[0, 0, 1, 2, 3, 4]])
    labelings = [[draws.integer(0, k - 1) for k in sizes] for _ in range(3)]
    planted = labelings[: draws.choice([0, 1, 1, 2])]
    factors = list(_factors(draws, sizes, numbers, planted))
    soft = draws.choice([np.array([0]), np.array(SOFT)])
    unaries = [-numbers[draws.array(k, soft)] for k in sizes]
    settings = {
        "neighbors": draws.integer(0, 3),
        "variables": draws.choice([100, 1, 2]),
        "largest": draws.choice([0.0, 0.5, 1.0]),
        "separator": draws.integer(1, 3),
        "stalled": draws.choice([_consistent, sweep_until_stalled]),
        "alone": draws.choice([np.inf, 0]),
        "messages": draws.choice(["", "sweeps", "sweeps", "triplets"]),
        "sweeps": draws.integer(1, 5),
        "work": draws.choice([10**9, 1, 500]),
        "solver": draws.choice(["search", "auto", "auto", "branch_and_bound"]),
        "pack_first": draws.choice([-1, 5000]),
        "labelings": draws.choice([labelings, labelings[::-1]]),
    }
    # what all labelings share makes sums inexact, and scores may be small nevertheless
    offset = -sum(shift for *_, shift in factors) * draws.integer(0, 1)
    factors = [(scope, table + shift) for scope, table, shift in factors]
    return unaries, factors, offset, settings


cases = decoded(4000, _case)


def total_scores(unaries, factors, offset):
    """Scores of all labelings, with an axis for each variable."""
    sizes = [len(row) for row in unaries]
    total = np.full(sizes, offset)
    for scope, table in [([v], row) for v, row in enumerate(unaries)] + factors:
        order = np.argsort(scope)
        shape = [sizes[v] if v in scope else 1 for v in range(len(sizes))]
        total = total + np.transpose(table, order).reshape(shape)
    return total


def search(graph, settings, look):
    """Branch and bound from a labeling; `look` is called with the run in between."""
    reduced = Reduced(graph)
    if not reduced.feasible or not reduced.graph.n_variables:
        return None
    problem = MAPProblem(reduced.graph, reduced.penalty)
    run = MAPRun(
        problem, TOL, np.inf, None, np.random.RandomState(0), offset=reduced.offset,
        lowest=reduced.lowest - reduced.offset if reduced.penalty else -np.inf,
    )  # fmt: skip
    first, *others = [np.array(x)[reduced.free] for x in settings["labelings"]]
    run.offer(first)
    if settings["messages"]:
        run.messages = TreeReweighted(problem)
        for k in range(settings["sweeps"]):
            run.report(bound=run.messages.sweep(k % 2 == 1))
    if settings["messages"] == "triplets" and run.score >= run.lowest:
        run.messages = Tightening(run)
        run.messages.advance()
    exact = ExactSearch(run)
    while run.status is None and not exact.closed:
        look(run.score + reduced.offset, run.bound + reduced.offset)
        if others:
            run.offer(others.pop())
            exact.prefer(run.labeling)
        exact.advance(settings["work"])
    run.status = run.status or Status.STALLED
    look(run.score + reduced.offset, run.bound + reduced.offset)
    return run, reduced


def _settled(settings):
    """What is set for a case: where graphs are cut, and when searches join."""
    stack = ExitStack()
    for module, name, value in (
        (auto, "_ELIMINATE", 0.0),
        (auto, "_PACK_FIRST", settings["pack_first"]),
        (_simplify, "_NEIGHBORS", settings["neighbors"]),
        (_terms, "sweep_until_stalled", settings["stalled"]),
        (_best_first, "sweep_until_stalled", settings["stalled"]),
        (_cluster_tree, "_LEAST_VARIABLES", settings["variables"]),
        (_cluster_tree, "_MOST_SEPARATOR", settings["separator"]),
        (_cluster_tree, "_LARGEST_SHARE", settings["largest"]),
        (_cluster_tree, "_ALONE", settings["alone"]),
    ):
        stack.enter_context(patch.object(module, name, value))
    return stack


def check(case):
    """The best labeling is proved, and no bound on the way is below it."""
    unaries, factors, offset, settings = case
    graph = FactorGraph(unaries, factors=factors, offset=offset)
    scores = total_scores(unaries, factors, offset)
    best = float(scores.max())
    scale = max(1.0, abs(best)) if np.isfinite(best) else 1.0
    # what floats of this size lose in sums
    tables = [*unaries, *(table for _, table in factors)]
    lost = 1e-13 * sum(np.abs(t[np.isfinite(t)]).max(initial=1.0) for t in tables)

    def look(score, bound):
        assert bound >= best - lost, (bound, best)

    with _settled(settings):
        if settings["solver"] == "search":
            found = search(graph, settings, look)
            if found is None:
                return
            run, reduced = found
            status, score = run.status, graph.score(reduced.labeling(run.labeling))
            # as the result would say
            status = Status.INFEASIBLE if run.bound < run.lowest else status
        else:
            solver = BranchAndBound()
            if settings["solver"] == "auto":
                solver = Auto(max_iter=settings["sweeps"], effort=0.01)
            result = solver.solve(graph, random_state=0)
            look(result.score, result.bound)
            status, score = result.status, graph.score(result.labeling)
    if best == -np.inf:
        assert status == "infeasible", status
        return
    # real scores may lose more than the tolerance, and then nothing can be proved
    whole = (scores[np.isfinite(scores)] % 1.0 == 0.0).all()
    if whole or lost < 0.01 * TOL * scale:
        assert status == "optimal", (status, score, best)
    assert score >= best - TOL * scale - lost, (score, best)
