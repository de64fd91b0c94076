"""Training through factorwise oracles: chains of many labels, and pairs of labels.

``chain``: seconds to an objective within 1 % of the best that any solver finds, for
GDMM with sublinear oracles and with scans, BCFW and SSG, on sentences like handwriting
(characters with a Zipf law, a few likely successors each, and noisy descriptors). BCFW
and SSG know dense tables of transitions only. Elements are scores that the oracles look
at in a pass; GB is the most that the process had used by then.

``multilabel``: MultilabelPairwise with its defaults beside one-vs-rest of the same loss
and classifier chains, for the three losses of labels: see `_label_sets.py`.

``structured``: objective, Hamming loss and sample-averaged F1 on the test set for the
structured hinge beside one-vs-rest and classifier chains of LinearSVC, with the same C,
chosen on the training set for one-vs-rest; and seconds to within 1 % of the best
objective for BCA, GDMM and BCFW with the LP relaxation.
"""

import argparse
import resource
import signal
import time
import warnings

import _common
import _label_sets
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, hamming_loss, make_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from sksstruct import ChainCRF, MultilabelPairwise
from sksstruct.solvers import GDMM, SSG

SETS = (*_label_sets.MULAN, *_label_sets.MADE)


def handwriting(n, n_labels, n_features=64, noise=2.0, length=14, seed=0):
    """Sentences of labels, and a noisy descriptor of unit length for each."""
    rng = np.random.RandomState(seed)
    zipf = 1.0 / np.arange(1, n_labels + 1)
    zipf /= zipf.sum()
    m = min(10, n_labels)
    next_ones = np.array(
        [rng.choice(n_labels, m, replace=False, p=zipf) for _ in range(n_labels)]
    )
    likely = 1.0 / np.arange(1, m + 1)
    likely /= likely.sum()
    prototypes = normalize(rng.standard_normal((n_labels, n_features)))
    X, y = [], []
    for _ in range(n):
        labels = [rng.choice(n_labels, p=zipf)]
        for _ in range(max(1, rng.poisson(length) - 1)):
            if rng.uniform() < 0.7:
                labels.append(next_ones[labels[-1], rng.choice(m, p=likely)])
            else:
                labels.append(rng.choice(n_labels, p=zipf))
        noisy = rng.standard_normal((len(labels), n_features)) * noise
        X.append(normalize(prototypes[labels] + noisy / np.sqrt(n_features)))
        y.append(np.array(labels))
    return X, y


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


def chain(sizes, n, alpha, seconds):
    header = [
        "solver", "s to 1 %", "objective", "passes", "s a pass", "elements a pass",
        "test accuracy", "GB",
    ]  # fmt: skip
    costs = {"gdmm": [], "elements": []}
    for n_labels in sizes:
        X, y = handwriting(n + 500, n_labels)
        test, X, y = (X[n:], y[n:]), X[:n], y[:n]
        solvers = {
            "gdmm": GDMM(tol=1e-3),
            "gdmm scan": GDMM(tol=1e-3, oracle="scan"),
            "bcfw": "auto",
            "ssg": SSG(tol=1e-3),
        }
        found = {}
        for name, solver in solvers.items():
            tagger = ChainCRF(alpha, solver=solver, tol=1e-3, random_state=0)
            fitted(tagger, X, y, seconds)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            accuracy = tagger.score(*test)
            found[name] = tagger.history_, tagger.n_iter_, accuracy, memory
        best = min(history["primal"].min() for history, *_ in found.values())
        rows = []
        for name, (history, passes, accuracy, memory) in found.items():
            elements = "-"
            took = history["seconds"][-1] / max(passes, 1)
            if "elements" in history:
                elements = history["elements"][-1] / max(passes, 1)
                if name == "gdmm":
                    costs["gdmm"].append(took)
                    costs["elements"].append(elements)
                elements = f"{elements:.3g}"
            rows.append([
                name, f"{seconds_to(history, 1.01 * best):.1f}",
                f"{history['primal'].min():.4f}", passes, f"{took:.2f}", elements,
                f"{accuracy:.4f}", f"{memory:.2f}",
            ])  # fmt: skip
        title = f"{n_labels} labels, {n} sentences, alpha {alpha}, {seconds:.0f} s each"
        _common.table(title, header, rows)
    if len(sizes) > 1:
        for name, values in costs.items():
            slope = np.polyfit(np.log(sizes), np.log(values), 1)[0]
            print(f"exponent in K of {name} a pass: {slope:.2f}")


def errors(Y, predicted):
    """Hamming loss and its standard error, sample-averaged F1 and its own."""
    wrong = (Y != predicted).mean(axis=1)
    both = (Y * predicted).sum(axis=1)
    sizes = Y.sum(axis=1) + predicted.sum(axis=1)
    f1 = np.where(sizes > 0, 2 * both / np.maximum(sizes, 1), 1.0)
    assert np.isclose(
        f1.mean(), f1_score(Y, predicted, average="samples", zero_division=1)
    )
    root = len(Y) ** 0.5
    return wrong.mean(), wrong.std() / root, f1.mean(), f1.std() / root


fewest_errors = make_scorer(hamming_loss, greater_is_better=False)


def structured(names, seconds, data_home=None):
    header = [
        "method", "fit s", "objective", "s to 1 %", "Hamming", "(se)", "F1", "(se)"
    ]  # fmt: skip
    for name in names:
        X, Y, X_test, Y_test = _label_sets.load(name, data_home)
        n, many = len(Y), Y.shape[1] > 200
        alone = OneVsRestClassifier(
            LinearSVC(loss="hinge", max_iter=2000, random_state=0)
        )
        folds = KFold(3, shuffle=True, random_state=0)
        search = GridSearchCV(
            alone, {"estimator__C": [0.1, 1.0, 10.0]}, cv=folds, scoring=fewest_errors
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(X, Y)
        C = search.best_params_["estimator__C"]
        pairs = "cooccurring" if many else "all"
        common = {"alpha": 1 / (n * C), "pairs": pairs, "random_state": 0,
                  "loss": "structured_hinge", "interaction_scaling": 1.0}  # fmt: skip
        methods = {
            "one-vs-rest": alone.set_params(estimator__C=C),
            "chain": ClassifierChain(
                LinearSVC(loss="hinge", C=C, max_iter=2000, random_state=0),
                order="random", random_state=0,
            ),
            "bca": MultilabelPairwise(
                solver="bca", inference="lp", **{**common, "tol": 5e-5}
            ),
            "gdmm": MultilabelPairwise(solver="gdmm", **common),
            "bcfw, LP": MultilabelPairwise(solver="bcfw", inference="lp", **common),
        }  # fmt: skip
        rows, traces = [], {}
        for method, estimator in methods.items():
            started = time.perf_counter()
            # LinearSVC needs both classes
            some = np.ptp(Y, axis=0) > 0 if method == "chain" else slice(None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted(estimator, X, Y[:, some], seconds)
            took = time.perf_counter() - started
            predicted = np.zeros_like(Y_test)
            predicted[:, some] = estimator.predict(X_test)
            scores = errors(Y_test, predicted)
            if hasattr(estimator, "history_"):
                traces[method] = estimator.history_
            rows.append((method, took, scores))
        best = min(trace["primal"].min() for trace in traces.values())
        lines = []
        for method, took, (wrong, wrong_se, f1, f1_se) in rows:
            objective = reached = "-"
            if method in traces:
                objective = f"{traces[method]['primal'].min():.4f}"
                reached = f"{seconds_to(traces[method], 1.01 * best):.2f}"
            lines.append([
                method, f"{took:.2f}", objective, reached, f"{wrong:.4f}",
                f"{wrong_se:.4f}", f"{f1:.4f}", f"{f1_se:.4f}",
            ])  # fmt: skip
        title = f"{name}: {Y.shape[1]} labels, {pairs} pairs, C {C}"
        _common.table(title, header, lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--only", choices=("chain", "multilabel", "structured"))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--labels", type=int, nargs="+", default=[45, 200, 800, 3039])
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--alpha", type=float, default=0.02)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument(
        "--losses", nargs="+", default=_label_sets.LOSSES, choices=_label_sets.LOSSES
    )
    options = parser.parse_args()
    if options.only in (None, "chain"):
        chain(options.labels, options.sentences, options.alpha, options.seconds)
    if options.only in (None, "multilabel"):
        _label_sets.compare(options.sets, options.losses, options.data_home)
    if options.only in (None, "structured"):
        sets = [name for name in options.sets if name not in _label_sets.MADE]
        structured(sets, options.seconds, options.data_home)
