"""The k best sets of labels of a sample (Lawler, 1972).

All sets are divided into parts. In a part some labels are fixed, and its best set is
known. The best of these sets is the next result, and its part is divided: each new part
has the sets in which a certain label, in some order, is the first one that differs from
the result. This label is fixed at the other value; the labels before it are fixed as in
the result.

Few parts are solved, because each part has an upper bound. Let z be the best set of a
part, with score s. If label j alone flips, let the score fall by b_j; if the labels j
and k both flip, let their pair add v_jk. If j flips and labels before it do not, no set
scores more than

    s - max(0, b_j - sum_(k after j) min(v+_jk, r_k)),   v+ = max(0, v),
    r_k = max(0, sum_l v+_kl - b_k),

with the sum over labels l that are free. Undo the flips of j, and of all k with r_k =
0, whose losses b_k no pairs outweigh: the set that results is in the part, and scores
at most s. The flip of j adds to label k at most v+_jk, or r_k if k flips only because j
does. Without pairs, the bound is the score.
"""

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from sksstruct.inference.cuts._reduced_roof import LabelPairs, ReducedRoofDual
from sksstruct.models.multilabel.decoding import decide_open
from sksstruct.utils.parallel import run_in_chunks


def best_sets(unaries, pairs, interactions, k, *, most_open, n_jobs):
    """The k best sets of each sample.

    Parameters
    ----------
    unaries : ndarray of shape (n_samples, n_labels)
        Scores of the labels.
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of labels that interact.
    interactions : ndarray of shape (n_labels, n_labels)
        Scores of pairs, symmetric with a diagonal of zeros.
    k : int
        Number of sets.
    most_open : int
        Largest number of labels that are enumerated if the relaxation leaves them open.
        If it never leaves more labels open, the sets are the best.
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    labels : ndarray of shape (n_samples, n_sets, n_labels)
        Different sets, the best first, as 0 and 1; n_sets is k, or less if there are
        fewer sets.
    scores : ndarray of shape (n_samples, n_sets)
        Their scores.
    """
    n, n_labels = unaries.shape
    n_sets = min(k, 2**n_labels)
    labels = np.empty((n, n_sets, n_labels), dtype=np.int64)
    scores = np.empty((n, n_sets))

    def run(first, last):
        search = _Search(pairs, interactions, most_open)
        for i in range(first, last):
            labels[i], scores[i] = search.find(unaries[i], n_sets)

    run_in_chunks(run, n, n_jobs)
    return labels, scores


@dataclass(eq=False)
class _Part:
    """Sets with some fixed labels.

    Parameters
    ----------
    labels : ndarray of shape (n_labels,)
        The best of these sets.
    score : float
        Its score.
    fixed : ndarray of shape (n_labels,), bool
        Whether each label is fixed.
    """

    labels: np.ndarray
    score: float
    fixed: np.ndarray

    def flipped(self, order, place):
        """Labels of the new part in which a label flips first, and flags of fixed
        labels.
        """
        labels, fixed = self.labels.copy(), self.fixed.copy()
        labels[order[place]] ^= 1
        fixed[order[: place + 1]] = True
        return labels, fixed


class _Search:
    """The search for the best sets, with arrays for all samples."""

    def __init__(self, pairs, interactions, most_open):
        scores = interactions[pairs[:, 0], pairs[:, 1]]
        used = scores != 0.0
        self._pairs, self._scores = pairs[used], scores[used]
        self._interactions, self._most_open = interactions, most_open
        graph = LabelPairs(self._pairs, len(interactions))
        graph.set_scores(self._scores)
        self._relaxed = ReducedRoofDual(graph)
        # if the absolute score of a label is at least this, all best sets agree on the
        # label
        self._strong = np.abs(interactions).sum(axis=1) + 1.0

    def find(self, unary, n_sets):
        """The `n_sets` best sets of a sample, and their scores."""
        numbers, found, heap = count(), [], []

        def add(value, part, order, rest):
            # among equal values, sets come before bounds
            entry = -value, bool(rest), next(numbers), part, order, rest
            heapq.heappush(heap, entry)

        def solve(labels, fixed):
            part = self._solve(unary, labels, fixed)
            add(part.score, part, None, None)

        free = np.zeros(len(unary), dtype=bool)
        solve((unary > 0.0).astype(np.int64), free)
        while len(found) < n_sets:
            *_, part, order, rest = heapq.heappop(heap)
            if rest:
                solve(*part.flipped(order, rest.pop()[1]))
            else:
                found.append(part)
                order, rest = self._divide(unary, part)
            if rest:
                add(rest[-1][0], part, order, rest)
        scores = np.array([part.score for part in found])
        # rounding errors may change the order of sets
        ranks = np.argsort(-scores, kind="stable")
        return np.array([part.labels for part in found])[ranks], scores[ranks]

    def _solve(self, unary, labels, fixed):
        """The part of the sets with the given values of fixed labels; finds its best
        set.
        """
        forced = np.where(labels == 1, self._strong, -self._strong)
        forced = np.where(fixed, forced, unary)
        # the given labels, one flip from a best set, are most often the best ones
        halves, _ = self._relaxed.solve(forced, labels)
        labels, open_ = (halves == 1.0).astype(np.int64), np.flatnonzero(halves == 0.5)
        if len(open_):
            labels[open_] = decide_open(
                halves,
                open_,
                forced,
                self._pairs,
                self._scores,
                self._interactions,
                self._most_open,
            )
        on = np.flatnonzero(labels)
        of_pairs = 0.5 * self._interactions[np.ix_(on, on)].sum()
        return _Part(labels, float(unary[on].sum() + of_pairs), fixed)

    def _divide(self, unary, part):
        """The free labels in an order, and for each of them an upper bound on the
        scores of the sets in which it is the first label that flips.

        Bounds are pairs ``(bound, index in the order)``, the highest last.
        """
        signs = 2.0 * part.labels - 1.0
        of_others = self._interactions[part.labels == 1].sum(axis=0)
        loss = signs * (unary + of_others)
        order = np.argsort(loss, kind="stable")
        order = order[~part.fixed[order]]
        # a pair counts for its first label in the order; fixed labels have the index n
        n = len(order)
        places = np.full(len(loss), n)
        places[order] = np.arange(n)
        ends = np.sort(places[self._pairs], axis=1)
        gain = np.maximum(self._scores * signs[self._pairs].prod(axis=1), 0.0)
        inside = (ends[:, 1] < n) & (gain > 0.0)
        (first, second), gain = ends[inside].T, gain[inside]
        most = sum(np.bincount(end, gain, n) for end in (first, second))
        left = np.maximum(most - loss[order], 0.0)
        gains = np.bincount(first, np.minimum(gain, left[second]), n)
        bounds = part.score - np.maximum(loss[order] - gains, 0.0)
        ranks = np.argsort(bounds, kind="stable")
        return order, list(zip(bounds[ranks].tolist(), ranks.tolist(), strict=True))
