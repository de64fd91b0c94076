"""Turns of branch and bound beside another solver."""

import numpy as np
import pytest
from map_graphs import random_graph

from sksstruct.inference.map import TRWS, Auto, auto
from sksstruct.inference.map.branch_and_bound.turns import Turns
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.run import MAPRun
from sksstruct.inference.map.tightening.tighten import Tightening


class FakeRun:
    score, lowest, status = 10.0, -np.inf, None

    class problem:
        max_states = 3


class FakeSearch:
    """Branch and bound whose bound falls by a given amount for each table entry."""

    def __init__(self, run, rate, step=1):
        self.run, self.rate, self.step = run, rate, step
        self.bound, self.work, self.closed, self.preferred = 110.0, 0, False, 0

    def prefer(self, labeling):
        self.preferred += 1

    def advance(self, work):
        # searches stop at the next multiple of their step
        done = -(-work // self.step) * self.step
        self.work += done
        self.bound -= self.rate * done


def turns_with(rate, step=1):
    run = FakeRun()
    run.labeling = None
    return Turns(run, FakeSearch(run, rate, step))


@pytest.mark.parametrize(
    ("rate", "alone", "share"),
    [
        (0.0, False, 0.25),
        (0.0, True, 1.0),
        (0.02, False, 2.0),
    ],
)
def test_the_share_follows_the_progress(rate, alone, share):
    turns = turns_with(rate)
    for _ in range(6):
        turns.take(400.0, alone)
    assert turns.share == share
    turns.restart()
    assert turns.share == 0.5


def test_small_amounts_of_work_add_up():
    turns = turns_with(0.0, step=1000)
    for _ in range(4000):
        turns.take(10.0)
    # a quarter of the 40,000 entries, and a part of the first turns at the first share
    assert 10_000 <= turns.exact.work <= 12_000


def test_better_labelings_are_handed_over_once():
    turns = turns_with(0.0)
    turns.take(100.0)
    assert turns.exact.preferred == 1
    turns.take(100.0)
    assert turns.exact.preferred == 1
    turns.run.score = 20.0
    turns.take(100.0)
    assert turns.exact.preferred == 2


def test_a_closed_search_gets_no_turn():
    turns = turns_with(0.0)
    turns.exact.closed = True
    assert turns.take(100.0)
    assert turns.exact.work == 0


def test_parts_take_turns(monkeypatch):
    monkeypatch.setattr(auto, "_ELIMINATE", 0.0)
    graph = random_graph(np.random.default_rng(0), n=60, m=240, states=(3, 4))
    trace = Auto().solve(graph, random_state=0).trace
    part = trace["part"]
    assert part[0] == "TRW-S"
    assert {"branch and bound", "tightening", "local search"} <= set(part)
    # more than one turn of each
    changes = part[1:] != part[:-1]
    assert changes.sum() > 6


def test_stalls_are_those_of_the_own_bound():
    """A lower bound of another part of a run does not end TRW-S."""
    graph = random_graph(np.random.default_rng(3), n=120, m=500, states=(3, 4))

    def sweeps(bound):
        run = MAPRun(MAPProblem(graph), 1e-9, 1000, None, np.random.RandomState(0))
        run.exact_bound = run.bound = bound
        TRWS()._run(run)
        return run.n_iter

    plain = sweeps(np.inf)
    assert plain == sweeps(TRWS().solve(graph, random_state=0).bound - 10.0) > 40


def test_a_first_round_without_triplets_is_not_the_last():
    graph = random_graph(np.random.default_rng(0), n=20, m=50, states=(3, 4))
    problem = MAPProblem(graph)
    run = MAPRun(problem, 1e-9, np.inf, None, np.random.RandomState(0))
    run.offer(problem.best_states())
    run.report(bound=1e6)
    tightening = Tightening(run)
    tightening._find = lambda: []
    assert not tightening.advance()
    # the first bound, whatever the bound of the run
    first = tightening.bound
    assert first < 1e6
    run.bound = run.exact_bound = first - 1.0
    tightening.advance()
    assert first - 1.0 < tightening.bound <= first
