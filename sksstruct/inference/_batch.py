"""Many problems at once, on several threads.

Small problems cost more to set up than to solve. Several trees together are a forest,
and several graphs together a graph. For oracles that accept these, a group of small
problems is merged into one problem, in which no part affects another.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sksstruct.inference._checks import check_scores, check_sums
from sksstruct.inference.assignment._matching import (
    check_assignment,
    matching,
    matchings,
)
from sksstruct.inference.chains._oracles import viterbi, viterbi_group
from sksstruct.inference.cuts._solver import MinCut, min_cut
from sksstruct.inference.trees._forest import Forest
from sksstruct.inference.trees._trees import max_product
from sksstruct.utils.parallel import run_in_chunks

# Groups depend on the problems alone, not on the number of threads.
# Largest number of problems in a group.
GROUP = 256
# Largest number of variables in a group.
MOST = 4000
# Problems with more variables are not grouped: copying their arrays into those of a
# group takes longer than a separate call of the oracle.
LARGE = 200
# Problems with more entries of scores and tables are not grouped, either.
WIDE = 3000
# Types of the arrays of problems that can be merged.
PLAIN = np.ndarray, np.memmap
# Data types of such arrays: booleans, integers, and floats that a double represents.
NUMBERS = "?bhilqBHILQefd"


def batch(
    oracle: Callable[..., Any],
    problems: Sequence[tuple],
    *,
    n_jobs: int | None = None,
    **options: Any,
) -> list:
    """Apply an oracle to many problems.

    Parameters
    ----------
    oracle : callable
        An oracle of this module. All of them search without the GIL except `bmmf`,
        `best_first`, `branch_and_bound` and `Exhaustive`, which call Python functions.
        Up to 256 small problems of `viterbi`, `max_product` or `min_cut` are merged
        into one, if scores and tables are arrays, all variables have the same number of
        states, and no score of a cut is ``-inf``. This is many times faster for
        problems with ten variables. Small problems of `matching` are merged if their
        scores are arrays of the same shape.
    problems : list of tuple
        Positional arguments of each call.
    n_jobs : int, default=None
        Number of threads. The results are the same for any number.
    **options : dict
        Keyword arguments of every call.

    Returns
    -------
    results : list
        Result of the oracle for each problem.

    Raises
    ------
    ValueError
        If a problem is not valid. The error message contains its number.

    See Also
    --------
    sksstruct.ChainCRF : Decodes all its sequences in one compiled loop.

    Examples
    --------
    >>> from sksstruct.inference import batch, viterbi
    >>> table = [[1, 0], [0, 1]]
    >>> problems = [([[1, 0], [0, 3]], table), ([[0, 3]], table)]
    >>> [labeling.tolist() for labeling, _ in batch(viterbi, problems, n_jobs=2)]
    [[0, 1], [1]]
    """
    problems = list(problems)
    results = [None] * len(problems)
    together = None
    if not options:
        # oracles are compared by identity, as the user's oracle need not be hashable
        together = next((each for known, each in TOGETHER if known is oracle), None)
    bounds = group_bounds(problems) if together else range(len(problems) + 1)

    def run(start, stop):
        # each thread writes to the indices of its problems: results keep their order
        for group in range(start, stop):
            first, last = bounds[group], bounds[group + 1]
            grouped = together(problems[first:last]) if last - first > 1 else None
            if grouped is not None:
                results[first:last] = grouped
                continue
            for i in range(first, last):
                try:
                    results[i] = oracle(*problems[i], **options)
                except ValueError as error:
                    raise ValueError(f"problems[{i}]: {error}") from error

    if problems:
        run_in_chunks(run, len(bounds) - 1, n_jobs)
    return results


def group_bounds(problems):
    """Return the first index of each group of problems, and the number of problems."""
    bounds, total, previous, before = [0], 0, 0, None
    for i, problem in enumerate(problems):
        size = size_in_group(problem, before)
        if i and (
            max(size, previous) > LARGE
            or i - bounds[-1] == GROUP
            or total + size > MOST
        ):
            bounds.append(i)
            total = 0
        total, previous, before = total + size, size, problem
    return [*bounds, len(problems)]


def size_in_group(problem, before):
    """Return the number of variables, or a number above LARGE to exclude a problem."""
    scores = problem[0] if isinstance(problem, tuple | list) and problem else None
    if not (is_array(scores) and scores.ndim):
        return LARGE + 1
    entries, table = scores.size, problem[-1]
    # a table that neighboring problems share is copied once
    shared = table is scores or (before and table is before[-1])
    if is_array(table) and not shared:
        entries += table.size
    return len(scores) if entries <= WIDE else LARGE + 1


def is_array(scores):
    """Return whether scores are a plain array of numbers that doubles represent.

    Matrices and masked arrays have semantics of their own, and are left to the oracle.
    """
    return type(scores) in PLAIN and scores.dtype.char in NUMBERS


class Group:
    """Several pairwise graphs merged into one graph, in which they are not connected.

    Parameters
    ----------
    problems : list of tuple
        Scores, edges and tables of each problem; scores and tables must be arrays. With
        `fits` False the problems are left to the oracle, which also reports errors.
    """

    def __init__(self, problems):
        self.fits = all(
            len(problem) == 3
            and is_array(problem[0])
            and is_array(problem[2])
            and problem[0].ndim == 2
            and problem[0].size
            and problem[2].ndim in (2, 3)
            for problem in problems
        )
        if not self.fits:
            return
        self.tables = [problem[2] for problem in problems]
        edges = [np.asarray(problem[1]) for problem in problems]
        # an empty list would become an array of floats
        no_edges = np.zeros((0, 2), dtype=np.intp)
        edges = [pairs if pairs.size else no_edges for pairs in edges]
        self.fits = all(
            pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
            for pairs in edges
        )
        if not self.fits:
            return
        sizes = [len(problem[0]) for problem in problems]
        self.counts = [len(pairs) for pairs in edges]
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.problem_of_edge = np.repeat(np.arange(len(problems)), self.counts)
        self.problem_of_variable = np.repeat(np.arange(len(problems)), sizes)
        self.unary = np.concatenate([problem[0] for problem in problems])
        edges = np.concatenate(edges)
        # an index beyond a problem's variables would be a variable of the next problem
        own_sizes = np.asarray(sizes)[self.problem_of_edge][:, None]
        self.fits = bool(
            ((edges >= 0) & (edges < own_sizes)).all()
            and all(
                table.ndim == 2 or len(table) == count
                for table, count in zip(self.tables, self.counts, strict=True)
            )
        )
        if self.fits:
            # edges are converted, as uint64 plus int64 would become floats
            self.edges = (
                edges.astype(np.intp) + self.first[self.problem_of_edge][:, None]
            )

    def split(self, labeling, scores):
        """Split a labeling of the merged graph; return the result of each problem.

        `scores` has the score of each problem.
        """
        return list(
            zip(np.split(labeling, self.first[1:-1]), scores.tolist(), strict=True)
        )


def max_product_together(problems):
    """Return best labelings of small trees and forests, found in one merged forest.

    Returns None if the problems cannot be merged.
    """
    try:
        group = Group(problems)
        if not group.fits:
            return None
        tables = []
        for table, count in zip(group.tables, group.counts, strict=True):
            tables += [table] * count if table.ndim == 2 else list(table)
        forest = Forest(group.unary, group.edges, tables)
    except ValueError:
        # the oracle will report which problem is wrong
        return None
    labeling, _ = forest.max_product()
    roots, scores = forest.trees()
    return group.split(labeling, np.bincount(group.problem_of_variable[roots], scores))


def min_cut_together(problems):
    """Return minimum cuts of small graphs, found in one merged graph.

    Returns None if the problems cannot be merged.
    """
    try:
        group = Group(problems)
        # the group's substitute for -inf would be too large for a small problem
        if not (group.fits and np.isfinite(group.unary).all()):
            return None
        # tables of problems without edges are checked, too, as the oracle checks them
        if not all(
            table.shape[-2:] == (2, 2) and np.isfinite(table).all()
            for table in group.tables
        ):
            return None
        tables = np.concatenate(
            [
                np.broadcast_to(table, (count, 2, 2))
                for table, count in zip(group.tables, group.counts, strict=True)
            ]
        )
        labeling, _ = MinCut(group.edges, len(group.unary)).solve(group.unary, tables)
    except ValueError:
        return None
    ends = labeling[group.edges]
    # terms are summed in the order of the oracle: variables, then edges
    terms = np.concatenate(
        [
            group.unary[np.arange(len(labeling)), labeling],
            tables[np.arange(len(ends)), ends[:, 0], ends[:, 1]],
        ]
    )
    owner = np.concatenate([group.problem_of_variable, group.problem_of_edge])
    return group.split(labeling, np.bincount(owner, terms))


def viterbi_together(problems):
    """Return best labelings of short chains, found in one call of a kernel.

    Returns None if the problems cannot be merged.
    """
    if not all(map(is_chain, problems)):
        return None
    n_states = problems[0][0].shape[1]
    sizes = [len(unary) for unary, _ in problems]
    tables, begins, steps, begin_of = [], [], [], {}
    total = 0
    for (_, table), size in zip(problems, sizes, strict=True):
        shape = table.shape[-2:] if len(table) == size - 1 else table.shape
        if shape != (n_states, n_states):
            return None
        if id(table) not in begin_of:
            begin_of[id(table)] = total
            tables.append(table.reshape(-1, n_states, n_states))
            total += len(tables[-1])
        begins.append(begin_of[id(table)])
        steps.append(table.ndim - 2)
    try:
        unary = check_scores("unary", np.concatenate([unary for unary, _ in problems]))
        tables = check_scores("pairwise", np.concatenate(tables))
        check_sums("unary and pairwise", 4 * len(unary), unary, tables)
    except ValueError:
        return None
    if not len(tables):
        # chains of one position have no tables, and the kernel needs a table
        tables = np.zeros((1, n_states, n_states))
    starts = np.array([0, *np.cumsum(sizes)], dtype=np.intp)
    labeling, scores = viterbi_group(
        unary, starts, tables, np.array(begins, np.intp), np.array(steps, np.intp)
    )
    return list(zip(np.split(labeling, starts[1:-1]), scores.tolist(), strict=True))


def matching_together(problems):
    """Return best assignments, found together for all problems of equal shape.

    Returns None if a problem needs separate checks.
    """
    by_shape = {}
    for k, problem in enumerate(problems):
        if not (len(problem) in (1, 2) and is_array(problem[0])):
            return None
        alone = problem[1] if len(problem) == 2 else None
        by_shape.setdefault((problem[0].shape, alone is None), []).append(k)
    results = [None] * len(problems)
    try:
        for (shape, all_assigned), members in by_shape.items():
            # scores are checked as one table: if sums over all its rows could overflow,
            # the oracle checks each problem alone
            scores = np.concatenate([problems[k][0] for k in members])
            scores, _ = check_assignment(scores, None)
            alone = None
            if not all_assigned:
                alone = np.array(
                    [
                        check_assignment(problems[k][0], problems[k][1])[1]
                        for k in members
                    ]
                )
            grouped = matchings(scores.reshape(len(members), *shape), alone)
            for k, result in zip(members, grouped, strict=True):
                results[k] = result
    except ValueError:
        return None
    return results


def is_chain(problem):
    """Return whether a problem has scores and tables of a chain, as arrays."""
    return (
        len(problem) == 2
        and is_array(problem[0])
        and is_array(problem[1])
        and problem[0].ndim == 2
        and problem[0].size > 0
        and problem[1].ndim in (2, 3)
    )


TOGETHER = [
    (matching, matching_together),
    (viterbi, viterbi_together),
    (max_product, max_product_together),
    (min_cut, min_cut_together),
]
