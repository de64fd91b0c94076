"""The k best outputs, and sums over all of them, in units of the best output.

Each oracle goes over all examples of a problem, in the loops that solvers call: the
best output of `Risk`, the five best of the hinge smoothed by l2, and the sums of the
hinge smoothed by the entropy. The losses also form gradients, from few features.
"""

import time
import warnings
from functools import partial

import numpy as np
from _common import arguments, bind, live_table
from sklearn.exceptions import ConvergenceWarning

from sksstruct import SSVMClassifier
from sksstruct.losses import SmoothedHinge
from sksstruct.models import (
    CandidatesModel,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    PartsModel,
    SegmentModel,
    grid_graph,
)
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers.core.risk import Risk

N_FEATURES, K, REPEAT = 4, 5, 9


def trees(rng, n_nodes, n_labels, complete=True):
    """A tree, or a forest, in which every node hangs from an earlier one."""
    edges = [(rng.randint(v), v) for v in range(1, n_nodes) if complete or v % 4]
    x = rng.normal(size=(n_nodes, N_FEATURES)), np.array(edges)
    return x, rng.randint(n_labels, size=n_nodes)


def grids(rng, side):
    """A grid of two labels, which a square of one of them is in."""
    y = np.zeros((side, side), dtype=int)
    y[side // 4 : side // 2, side // 3 : side - 1] = 1
    pixels = rng.normal(size=(side, side, N_FEATURES)) + y[:, :, None]
    return grid_graph(pixels), y


def parts(rng, n_parts, side):
    """A tree of parts, two of which hang from each."""
    x, y = rng.normal(size=(side, side, N_FEATURES)), []
    for part in range(n_parts):
        y.append(rng.randint(side // 4, 3 * side // 4, size=2))
        x[(*y[-1], part % N_FEATURES)] += 2.0
    return x, np.array(y)


def sequences(rng, size, n_labels):
    return rng.normal(size=(size, N_FEATURES)), rng.randint(n_labels, size=size)


def pairs(rng, n):
    """Pairs of two sides, of which some show that they match."""
    y = rng.permutation(n)
    x = rng.normal(size=(n, n, N_FEATURES))
    x[np.arange(n), y, 0] += 2.0
    return x, y


def candidates(rng, n):
    """Candidates, of which one stands out."""
    y = rng.randint(n)
    x = rng.normal(size=(n, N_FEATURES))
    x[y, 0] += 2.0
    return x, y


def problems():
    """Name, model (None: a chain), and function of a generator that makes examples."""
    limbs = [((v - 1) // 2, v) for v in range(1, 6)]
    cut = GraphModel("potts", inference="cut")
    yield "chains, 25 x 10", None, lambda rng: sequences(rng, 25, 10)
    segments = SegmentModel(max_length=6)
    yield "segments, 25 x 10", segments, lambda rng: sequences(rng, 25, 10)
    yield "trees, 50 x 10", GraphModel(), lambda rng: trees(rng, 50, 10)
    yield "forests, 50 x 10", GraphModel(), lambda rng: trees(rng, 50, 10, False)
    typed = PartsModel(limbs, n_types=3, type_features=False)
    for side in (8, 24):
        make = partial(parts, n_parts=6, side=side)
        yield f"parts, 6 x {side}^2", PartsModel(limbs), make
        yield f"typed parts, 6 x {side}^2", typed, make
    yield (
        "classes, 10",
        MulticlassModel(),
        lambda rng: (rng.normal(size=4), rng.randint(10)),
    )
    for n in (10, 1000):
        yield f"candidates, {n}", CandidatesModel(), partial(candidates, n=n)
    for side in (6, 32):
        yield f"cuts, {side} x {side}", cut, partial(grids, side=side)
    for n in (10, 50):
        yield f"matchings, {n}", MatchingModel(), partial(pairs, n=n)
        yield f"complete, {n}", MatchingModel(complete=True), partial(pairs, n=n)


def bound(model, make, n_examples):
    """The model bound to some examples, and weights after a few passes."""
    rng = np.random.RandomState(0)
    X, y = map(list, zip(*(make(rng) for _ in range(n_examples)), strict=True))
    options = {"alpha": 0.1, "max_iter": 3, "random_state": 0}
    if model is None:
        chain = bind(X, y)
        return chain, 0.1 * rng.normal(size=chain.n_weights)
    classifier = SSVMClassifier(model, solver="bcfw", **options).fit(X, y)
    fitted = classifier.model_
    return fitted._bind(fitted._read(X, y, None, classifier)), classifier.weights_


def measured(name, model, make, n_examples=50):
    """One row: microseconds of each oracle, in turns, and ratios."""
    bound_model, w = bound(model, make, n_examples)
    risk, gradient = Risk(bound_model), np.empty_like(w)
    sweeps = {"max": lambda: risk.value(w)}
    for column, kind, oracle in (("5 best", "l2", "topk"), ("sums", "entropy", "exp")):
        if oracle in bound_model.oracles:
            loss = smooth_loss(bound_model, SmoothedHinge(kind, 0.1, K), nonsmooth=True)
            sweeps[column] = partial(loss.value_and_gradient, w, gradient)
    seconds = dict.fromkeys(sweeps, np.inf)
    for _ in range(REPEAT):
        for column, sweep in sweeps.items():
            start = time.process_time()
            sweep()
            seconds[column] = min(seconds[column], time.process_time() - start)
    row = {"problem": name.ljust(22)}
    for column in ("max", "5 best", "sums"):
        took = seconds.get(column, np.nan)
        row[column] = f"{1e6 * took / n_examples:.4g}"
        row[f"{column} / max"] = f"{took / seconds['max']:.3g}"
    del row["max / max"]
    return row


def main():
    arguments(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    live_table("Microseconds an example", (measured(*row) for row in problems()))


if __name__ == "__main__":
    main()
