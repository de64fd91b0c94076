"""The k best sets of labels of a sample (Lawler, 1972).

Sets are divided into parts: some labels have a fixed value in each, and its best set is
known. The best of all parts is taken out. The rest of its part is divided by the first
label, in some order, whose value differs from that set: the labels before it are fixed
as they are, and it is fixed flipped.

Few of these parts are solved, as all have an upper bound. Let z be the best set of a
part, with score s. Let label j lose b_j by flipping alone, and let the pair of labels j
and k add v_jk if both flip. Where j flips and labels before it do not, no set scores
more than

    s - max(0, b_j - sum_(k after j) min(v+_jk, r_k)),   v+ = max(0, v),
    r_k = max(0, sum_l v+_kl - b_k),

with the sum over labels l that are free. The set without j, and without all k that
others give no reason to flip (r_k = 0), is in the part, and scores s at most. What j
adds to the others is v+_jk, or r_k if they flip only because of it. Without pairs, the
bound is the score.
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
        Largest number of labels that are enumerated where the relaxation leaves them
        open. If it never leaves more, the sets are the best.
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
        Which labels are fixed.
    """

    labels: np.ndarray
    score: float
    fixed: np.ndarray

    def flipped(self, order, place):
        """Labels and what is fixed where one label flips, and none that precede it."""
        labels, fixed = self.labels.copy(), self.fixed.copy()
        labels[order[place]] ^= 1
        fixed[order[: place + 1]] = True
        return labels, fixed


class _Search:
    """The search for the best sets, and what does not depend on the sample."""

    def __init__(self, pairs, interactions, most_open):
        scores = interactions[pairs[:, 0], pairs[:, 1]]
        used = scores != 0.0
        self._pairs, self._scores = pairs[used], scores[used]
        self._interactions, self._most_open = interactions, most_open
        graph = LabelPairs(self._pairs, len(interactions))
        graph.set_scores(self._scores)
        self._relaxed = ReducedRoofDual(graph)
        # a label with this score, or minus it, does not depend on others
        self._strong = np.abs(interactions).sum(axis=1) + 1.0

    def find(self, unary, n_sets):
        """The best sets of a sample, of which there are so many, and their scores."""
        numbers, found, heap = count(), [], []

        def add(value, part, order, rest):
            # of equal values, sets come before bounds
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
        # rounding may have found the better one of two later
        ranks = np.argsort(-scores, kind="stable")
        return np.array([part.labels for part in found])[ranks], scores[ranks]

    def _solve(self, unary, labels, fixed):
        """The best set with the given values of fixed labels."""
        forced = np.where(labels == 1, self._strong, -self._strong)
        forced = np.where(fixed, forced, unary)
        # one flip from the best set of other parts, most often there is no other
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
        """Free labels in an order, and bounds for each as the first one that flips.

        Bounds come as ``(bound, place in the order)``, the highest last.
        """
        signs = 2.0 * part.labels - 1.0
        of_others = self._interactions[part.labels == 1].sum(axis=0)
        loss = signs * (unary + of_others)
        order = np.argsort(loss, kind="stable")
        order = order[~part.fixed[order]]
        # a pair counts where its first label flips; places of fixed labels are beyond
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
