"""Lives of factor graphs and of what solves them: what was before plays no part."""

import os
import pickle
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from sksstruct import LPMAPPredictor
from sksstruct.datasets import dump_uai, dump_wcsp, load_uai, load_wcsp
from sksstruct.factor_graphs import (
    FactorGraphBuilder,
    Logic,
    Potts,
    TruncatedLinear,
    TruncatedQuadratic,
)
from sksstruct.inference.map import MAP_SOLVERS, resolve_map_solver
from tests.fuzz._draws import decoded, table_of

NUMBERS = table_of([0.0, 1.0, -1.0, 2.0, -3.0], -4, 4)
SCORES = table_of([0.0, 1.0, -1.0, 2.0, -np.inf], -4, 4)
TABLES = ("dense", "dense", "potts", "linear", "quadratic", "logic")
CONDITIONS = ("xor", "atmostone", "or", "xorout", "orout", "budget")
# a program that is not there is none to compare with
SOLVERS = sorted(MAP_SOLVERS.keys() - {"cp_sat", "toulbar2"})
# those that solve the problem, and no relaxation of it
EXACT = {"highs", "branch_and_bound"}
STEPS = ("variable", "factor", "factor", "observe", "solve", "solve", "again", "pickle",
         "uai", "wcsp", "mutate", "evidence")  # fmt: skip
# of labelings, which are all tried
MOST = 2000
_FOLDER = tempfile.TemporaryDirectory()


def _table(draws, sizes):
    kind = draws.choice(TABLES)
    pair = len(sizes) == 2 and sizes[0] == sizes[1]
    if kind == "logic" and len(sizes) > 1 and all(k == 2 for k in sizes):
        condition = draws.choice(CONDITIONS)
        limit = draws.integer(0, len(sizes)) if condition == "budget" else None
        return Logic(condition, len(sizes), draws.array(len(sizes), FLAGS), limit)
    if pair and kind == "potts":
        return Potts(sizes[0], *draws.array(2, NUMBERS).tolist())
    if pair and kind in ("linear", "quadratic"):
        scale, limit = draws.array(2, NUMBERS).tolist()
        made = TruncatedLinear if kind == "linear" else TruncatedQuadratic
        return made(sizes[0], abs(scale), abs(limit) + 0.5)
    return draws.array(sizes, draws.choice([NUMBERS, SCORES]))


FLAGS = np.array([False, True])


def _factor(draws, states):
    scope = list(range(len(states)))
    size = min(draws.choice([2, 2, 1, 3]), len(states))
    scope = [scope.pop(draws.integer(0, len(scope) - 1)) for _ in range(size)]
    return "factor", scope, _table(draws, [states[v] for v in scope])


def _step(draws, states):
    name = draws.choice(STEPS)
    if name == "variable" and 3 * np.prod(states) <= MOST:
        states.append(draws.integer(1, 3))
        return name, draws.array(states[-1], draws.choice([NUMBERS, SCORES]))
    if name in ("factor", "variable"):
        return _factor(draws, states)
    if name in ("observe", "evidence"):
        v = draws.integer(0, len(states) - 1)
        return name, v, draws.integer(0, states[v] - 1)
    if name in ("solve", "again"):
        return name, draws.choice(SOLVERS), draws.choice([None, None, 1, 3])
    return (name,)


def _case(draws):
    """What is added to a graph and done with it, step by step."""
    states = [draws.integer(2, 3) for _ in range(draws.integer(1, 6))]
    first = [("variable", draws.array(k, NUMBERS)) for k in states]
    # what has few cycles is solved before a solver sees it
    first += [_factor(draws, states) for _ in range(draws.integer(0, 14))]
    return first + [_step(draws, states) for _ in range(draws.integer(1, 8))]


cases = decoded(700, _case)


def _scores(graph):
    """Scores of all labelings, whatever was observed."""
    graph = graph.with_evidence(None)
    labelings = product(*(range(k) for k in graph.n_states))
    return {x: graph.score(x) for x in labelings}


def _numbers(result):
    """What a solver found, as bytes; without times."""
    return (
        result.labeling.tobytes(), result.score, result.bound, str(result.status),
        result.n_iter,
    )  # fmt: skip


class Life:
    """A graph that grows, and solvers that are used again and again."""

    def __init__(self):
        self.builder, self.solvers = FactorGraphBuilder(), {}
        self.predictor = LPMAPPredictor(random_state=0)
        self.observed, self.graph = {}, None

    def built(self):
        """The graph as it is now; it is built once."""
        if self.graph is None:
            self.graph = self.builder.build()
            self.scores = _scores(self.graph)
            self.best = max(
                score
                for x, score in self.scores.items()
                if all(x[v] == state for v, state in self.observed.items())
            )
        return self.graph

    def variable(self, scores):
        self.builder.add_variable(scores)
        self.graph = None

    def factor(self, scope, table):
        self.builder.add_factor(scope, table)
        self.graph = None

    def observe(self, v, state):
        self.builder.observe(v, state)
        self.observed[v] = state
        self.graph = None

    # ---- solvers ----

    def solve(self, name, max_iter):
        """A solver that solved other problems before finds what a new one finds."""
        graph, key = self.built(), (name, max_iter)
        if key not in self.solvers:
            self.solvers[key] = resolve_map_solver(name, max_iter=max_iter)
        found = self._run(self.solvers[key], graph)
        fresh = self._run(resolve_map_solver(name, max_iter=max_iter), graph)
        if isinstance(found, str) or isinstance(fresh, str):
            assert found == fresh, (found, fresh)
            return
        assert _numbers(found) == _numbers(fresh), f"{name}: not as a new one"
        self._check(name, found, max_iter)

    def _run(self, solver, graph):
        try:
            return solver.solve(graph, random_state=0)
        except ValueError as error:
            return str(error)

    def _check(self, name, result, max_iter):
        """The labeling has the score, the bound is one, the optimum is the best."""
        score = self.graph.score(result.labeling)
        assert score == result.score or abs(score - result.score) < 1e-9, name
        slack = 1e-6 * (1 + abs(self.best)) if np.isfinite(self.best) else 0.0
        assert not result.score > self.best + slack, (name, result.score, self.best)
        assert result.bound >= self.best - slack, (name, result.bound, self.best)
        if str(result.status) == "optimal":
            # within the tolerance, for labelings
            near = 1e-4 * (1 + abs(self.best)) if np.isfinite(self.best) else 0.0
            assert result.score >= self.best - near, (name, result.score, self.best)
        if str(result.status) == "infeasible":
            assert self.best == -np.inf, (name, self.best)
        if name in EXACT and max_iter is None:
            assert str(result.status) in ("optimal", "infeasible"), (
                name,
                result.status,
            )

    def again(self, name, max_iter):
        """A predictor that predicted others before; its results are those of now."""
        graph = self.built()
        self.predictor.set_params(solver=name, max_iter=max_iter)
        fresh = LPMAPPredictor(name, max_iter=max_iter, random_state=0)
        try:
            (labeling,) = self.predictor.predict([graph])
        except ValueError:
            return
        (expected,) = fresh.predict([graph])
        assert labeling.tolist() == expected.tolist()
        assert self.predictor.scores_.tolist() == fresh.scores_.tolist()
        assert len(self.predictor.status_) == len(self.predictor.bounds_) == 1

    # ---- graphs that are the same, or should be ----

    def _same(self, graph, scores=None, offset=0.0):
        scores = self.scores if scores is None else scores
        for x, score in _scores(graph).items():
            near = abs(score + offset - scores[x]) <= 1e-6 * (1 + abs(scores[x]))
            assert score + offset == scores[x] or near, (x, score, scores[x])

    def pickle(self):
        graph = pickle.loads(pickle.dumps(self.built()))
        self._same(graph)
        assert graph.evidence.tolist() == self.graph.evidence.tolist()

    def _file(self, dump, load, suffix):
        """A graph that went through a file; one that the format lacks is refused."""
        path = Path(_FOLDER.name) / f"{os.getpid()}{suffix}"
        graph = self.built()
        try:
            dump(graph, path)
        except ValueError:
            return
        read = load(path)
        assert read.n_states.tolist() == graph.n_states.tolist()
        # differences of scores are kept; a format may have no room for a constant
        found = _scores(read)
        finite = [x for x in found if np.isfinite(self.scores[x])]
        assert all(
            np.isfinite(found[x]) == np.isfinite(self.scores[x]) for x in found
        ), "another labeling is allowed"
        shift = {round(found[x] - self.scores[x], 4) for x in finite}
        assert len(shift) <= 1 or max(shift) - min(shift) < 1e-3, shift

    def uai(self):
        self._file(dump_uai, load_uai, ".uai")

    def wcsp(self):
        self._file(dump_wcsp, load_wcsp, ".wcsp")

    def mutate(self):
        """Graphs, and their arrays, cannot be changed."""
        graph = self.built()
        for array in (graph.unaries, graph.edges, graph.n_states, graph.evidence):
            try:
                array[...] = 7
            except ValueError:
                continue
            raise AssertionError("an array of a graph could be changed")
        try:
            graph.offset = 1.0
        except AttributeError:
            pass
        else:
            raise AssertionError("an attribute of a graph could be changed")
        self._same(graph)

    def evidence(self, v, state):
        """A graph with another observation; the graph itself has none of it."""
        graph = self.built()
        before = graph.evidence.tolist()
        other = graph.with_evidence({v: state})
        assert other.evidence[v] == state
        assert graph.evidence.tolist() == before
        result = resolve_map_solver("branch_and_bound").solve(other)
        best = max(score for x, score in self.scores.items() if x[v] == state)
        assert abs(result.score - best) < 1e-9 or result.score == best
        assert result.labeling[v] == state or best == -np.inf


def check(case):
    """Live a life."""
    life = Life()
    for name, *arguments in case:
        getattr(life, name)(*arguments)
