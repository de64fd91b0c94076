"""Training with thousands of labels, and with pairs of labels.

``chain``: CPU seconds to an objective within 1 % of the best that any solver finds, for
what ``solver="auto"`` is, the same with a table of all pairs of labels, and GDMM with
sublinear oracles, on sentences like handwriting (characters with a Zipf law, a few
likely successors each, and noisy descriptors). With more than ``--tables``
labels a single pass over tables is timed. GB is the most that the process had
used by then.

``structured``: the structured hinge on sets of labels, whose rows have unit length:
objective and certified bound of BCA, GDMM and BCFW with the LP relaxation, and seconds
to within 1 % of the best objective. ``bench_structured.py --only multilabel`` has what
it predicts.

``grid``: images of regions of many labels, whose neighbors come from a table, and noisy
features of the pixels, for a grid model with a table of all pairs: a grid that linear
programs solve, where all solve the same problem, and one of 30 x 30 pixels and 50
labels, each for ``--grid-seconds`` at most. Where TRW-S does not solve an image, "bcfw,
TRW-S" takes its best labeling; its own objective is a lower estimate of the relaxed one
then, and its dual bounds the problem of labelings. "relaxed" is the relaxed objective
at its weights, bounded from above as GDMM's, and "gdmm's to it" what GDMM took to that.
"""

import argparse
import resource
import signal
import sys
import time
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path

import _common
import _label_sets
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, MultilabelPairwise, SSVMClassifier
from sksstruct.estimators._train import prepare
from sksstruct.inference.map import TRWS
from sksstruct.models import RelaxedGraphModel, grid_graph
from sksstruct.models.chain import chain as chain_module
from sksstruct.models.roles import factor_model
from sksstruct.solvers import BCFW, GDMM

sys.path.append(str(Path(__file__).parents[1] / "examples" / "papers"))
from _data import handwriting

# C of one-vs-rest with the fewest wrong labels in three folds.
C = {"emotions": 1.0, "scene": 10.0, "yeast": 1.0, "medical": 1.0, "rcv1sub1": 10.0,
     "bibtex": 1.0, "corel5k": 0.1}  # fmt: skip
METHODS = "bca", "gdmm", "bcfw, LP"


class Alarm:
    """Interrupts a fit after some seconds; the model can be used."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        signal.alarm(max(1, int(self.seconds)))

    def __exit__(self, kind, *_):
        signal.alarm(0)
        return kind is KeyboardInterrupt


def fitted(estimator, X, y, seconds):
    with Alarm(seconds), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X, y)
    return estimator


def seconds_to(history, value):
    """When the trace first was at a value; infinite if never."""
    at = np.flatnonzero(history["primal"] <= value)
    return history["seconds"][at[0]] if len(at) else np.inf


@contextmanager
def tables():
    """Keep a table of all pairs of labels, however many they are."""
    pays, chain_module.sparse_pays = chain_module.sparse_pays, lambda *numbers: False
    try:
        yield
    finally:
        chain_module.sparse_pays = pays


def chain(sizes, n, alpha, seconds, most_tables, names):
    header = [
        "solver", "CPU s to 1 %", "objective", "passes", "CPU s a pass",
        "test accuracy", "predict ms", "GB",
    ]  # fmt: skip
    cost = []
    for n_labels in sizes:
        X, y = handwriting(n + 500, n_labels)
        test, X, y = (X[n:], y[n:]), X[:n], y[:n]
        found = {}
        for name in names:
            is_table = name == "bcfw table"
            # one pass is enough to see that it is hopeless
            most = 1 if is_table and n_labels > most_tables else 1000
            solver = GDMM(tol=1e-3) if name == "gdmm" else "auto"
            tagger = ChainCRF(
                alpha, solver=solver, tol=1e-3, max_iter=most, random_state=0
            )
            started, wall = time.process_time(), time.perf_counter()
            with tables() if is_table else nullcontext():
                fitted(tagger, X, y, seconds)
            # other processes take their share of the processors
            share = (time.process_time() - started) / (time.perf_counter() - wall)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            accuracy = tagger.score(*test)
            started = time.process_time()
            tagger.predict(test[0])
            took = 1e3 * (time.process_time() - started)
            found[name] = tagger, share, accuracy, took, memory
        # a table of very many labels takes longer for one pass than there is time
        best = min(
            tagger.history_["primal"].min(initial=np.inf)
            for tagger, *_ in found.values()
        )
        rows = []
        for name, (tagger, share, accuracy, took, memory) in found.items():
            history = tagger.history_
            a_pass = share * history["seconds"][-1] / max(tagger.n_iter_, 1)
            if name == "auto":
                cost.append(a_pass)
            rows.append([
                name, f"{share * seconds_to(history, 1.01 * best):.1f}",
                f"{history['primal'].min(initial=np.inf):.4f}", tagger.n_iter_,
                f"{a_pass:.3f}",
                f"{accuracy:.4f}", f"{took:.0f}", f"{memory:.2f}",
            ])  # fmt: skip
        title = f"{n_labels} labels, {n} sentences, alpha {alpha}, {seconds:.0f} s each"
        _common.table(title, header, rows)
    if len(sizes) > 1:
        slopes = np.diff(np.log(cost)) / np.diff(np.log(sizes))
        print(f"exponents in K of a pass of auto: {slopes.round(2)}")


def structured(names, seconds, only, data_home=None):
    header = ["method", "CPU s", "objective", "below", "CPU s to 1 %"]
    for name in names:
        X, Y, *_ = _label_sets.load(name, data_home, unit=True)
        pairs = "cooccurring" if Y.shape[1] > 200 else "all"
        common = {
            "alpha": 1 / (len(Y) * C.get(name, 1.0)), "pairs": pairs, "random_state": 0,
            "loss": "structured_hinge", "interaction_scaling": 1.0, "inference": "lp",
        }  # fmt: skip
        methods = {
            "bca": {"solver": "bca", "tol": 5e-5},
            "gdmm": {"solver": "gdmm"},
            "bcfw, LP": {"solver": BCFW.as_published(tol=5e-4)},
        }
        rows = []
        for method in only or methods:
            estimator = MultilabelPairwise(**common, **methods[method])
            started, wall = time.process_time(), time.perf_counter()
            fitted(estimator, X, Y, seconds)
            took = time.process_time() - started
            # other processes take their share of the processors
            share = took / (time.perf_counter() - wall)
            rows.append((method, took, estimator.history_, share))
        best = min(trace["primal"].min() for _, _, trace, _ in rows)
        lines = [
            [method, f"{took:.2f}", f"{trace['primal'].min():.4f}",
             f"{trace['dual'].max():.4f}",
             f"{share * seconds_to(trace, 1.01 * best):.2f}"]
            for method, took, trace, share in rows
        ]  # fmt: skip
        _common.table(f"{name}: {Y.shape[1]} labels, {pairs} pairs", header, lines)


def label_images(n, n_labels, size, n_features=32, noise=1.5, n_regions=25, seed=0):
    """Grids of noisy features, and their labels: regions, of likely neighbors."""
    rng = np.random.default_rng(seed)
    prototypes = rng.normal(size=(n_labels, n_features)) / n_features**0.5
    likely = [rng.choice(n_labels, 4, replace=False) for _ in range(n_labels)]
    places = np.stack(np.meshgrid(range(size), range(size), indexing="ij"), -1)
    X, y = [], []
    for _ in range(n):
        centers = rng.uniform(0, size, (n_regions, 2))
        labels = [rng.integers(n_labels)]
        for k in range(1, n_regions):
            closest = np.argmin(((centers[:k] - centers[k]) ** 2).sum(axis=1))
            labels.append(rng.choice(likely[labels[closest]]))
        away = ((places[:, :, None] - centers) ** 2).sum(axis=-1)
        image = np.array(labels)[away.argmin(axis=-1)]
        errors = rng.normal(size=(size, size, n_features)) / n_features**0.5
        X.append(grid_graph(prototypes[image] + noise * errors, edge_features=None))
        y.append(image)
    return X, y


class LabelingsOnly(RelaxedGraphModel):
    """The oracle is TRW-S alone: its best labeling where the relaxation is loose."""

    def loss_augmented_decode(self, x, y, w):
        y_true = self._marginals(y)
        extra = (1.0 - y_true) / len(y_true)
        result = TRWS(tol=1e-9, max_iter=100).solve(
            self._graph(x, w, extra), random_state=0
        )
        return self._answer(x, result.labeling)


def relaxed_objective(estimator, X, y):
    """The relaxed objective of a fitted classifier, from above."""
    clone = SSVMClassifier(RelaxedGraphModel(normalize=True), alpha=estimator.alpha)
    factors = factor_model(prepare(clone, X, y).model)
    w = estimator.weights_
    return estimator.alpha / 2 * float(w @ w) + factors.maxima(w)


def grid(n_labels, size, n, names, seconds, alpha=0.01):
    X, y = label_images(n + 5, n_labels, size)
    test, X, y = (X[n:], y[n:]), X[:n], y[:n]
    fits = {
        "gdmm": (RelaxedGraphModel(normalize=True), GDMM(5000, 3e-4)),
        "bcfw, TRW-S": (LabelingsOnly(normalize=True), "auto"),
        "bcfw, LP": (RelaxedGraphModel(normalize=True), "auto"),
    }
    found = {}
    for name in names:
        model, solver = fits[name]
        estimator = SSVMClassifier(
            model, alpha=alpha, solver=solver, tol=3e-4, random_state=0
        )
        wall, cpu = time.perf_counter(), time.process_time()
        fitted(estimator, X, y, seconds)
        # of a machine with other work, the share that this process got
        share = (time.process_time() - cpu) / (time.perf_counter() - wall)
        found[name] = estimator, share
    gdmm, gdmm_share = found["gdmm"]
    header = [
        "solver", "CPU s", "gdmm's to it", "objective", "dual", "relaxed", "passes",
        "accuracy",
    ]  # fmt: skip
    rows = []
    for name, (estimator, share) in found.items():
        history = estimator.history_
        primal, dual = history["primal"].min(), history["dual"].max()
        relaxed = primal
        if name == "bcfw, TRW-S":
            relaxed = relaxed_objective(estimator, X, y)
        right = np.array(estimator.predict(test[0])) == np.array(test[1])
        rows.append([
            name, f"{share * history['seconds'][-1]:.1f}",
            f"{gdmm_share * seconds_to(gdmm.history_, relaxed):.1f}",
            f"{primal:.5f}", f"{dual:.5f}", f"{relaxed:.5f}",
            estimator.n_iter_, f"{right.mean():.4f}",
        ])  # fmt: skip
    _common.table(
        f"grid {size} x {size}, {n_labels} labels, {n} images, alpha {alpha}",
        header,
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--only", choices=("chain", "structured", "grid"))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument(
        "--labels", type=int, nargs="+", default=[45, 200, 800, 3039, 10_000]
    )
    parser.add_argument("--tables", type=int, default=800)
    parser.add_argument("--solvers", nargs="+", default=("auto", "bcfw table", "gdmm"))
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--grid-seconds", type=float, default=90.0)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--alpha", type=float, default=0.02)
    parser.add_argument(
        "--sets", nargs="+", default=_label_sets.MULAN, choices=_label_sets.SETS
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="of structured")
    options = parser.parse_args()
    if options.only in (None, "chain"):
        chain(
            options.labels, options.sentences, options.alpha, options.seconds,
            options.tables, options.solvers,
        )  # fmt: skip
    if options.only in (None, "structured"):
        structured(options.sets, options.seconds, options.methods, options.data_home)
    if options.only in (None, "grid"):
        # small enough for linear programs, so that both can be run to the end
        grid(10, 8, 10, ("gdmm", "bcfw, LP", "bcfw, TRW-S"), options.grid_seconds)
        grid(50, 30, options.images, ("gdmm", "bcfw, TRW-S"), options.grid_seconds)
