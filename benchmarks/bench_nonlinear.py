"""Nonlinear scores: time beside linear ones, and networks on the examples' data.

The first table sets oracle calls of the prox-linear method beside those of linear
solvers on the same sequences. The others are the digit strings and the digits in
clutter of the examples, with linear scores and with two layers.
"""

import sys
import time
import warnings
from pathlib import Path

import _common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.datasets import load_digit_strings, make_digit_clutter
from sksstruct.models import CandidatesModel, ELUScore
from sksstruct.solvers import SGD, SVRG, Casimir, ProxLinear


def fitted(estimator, X, y):
    """Fit; return the seconds, and the milliseconds of one oracle call per example."""
    with _common.Clock() as clock:
        estimator.fit(X, y)
    calls = estimator.history_["oracle_calls"][-1] / len(X)
    return clock.seconds, 1e3 * clock.seconds / calls


def falls(history):
    """Whether the objective never rises."""
    return "yes" if (np.diff(history["primal"]) <= 0).all() else "no"


def speed():
    rng = np.random.RandomState(0)
    few = [rng.normal(size=(3, 2)) for _ in range(6)]
    labels = [np.where(x[:, 0] * x[:, 1] > 0, "same", "other") for x in few]
    data = load_digit_strings(n_train=1000)
    rows = []
    for loss in ("hinge", "log"):
        tagger = ChainCRF(1e-3, loss=loss, random_state=0)
        tagger.set_params(solver=ProxLinear(50, 0.0), score_function=ELUScore(8))
        seconds, call = fitted(tagger, few, labels)
        rows.append(("six of 3", loss, "prox-linear", tagger.n_iter_, f"{seconds:.2f}",
                     f"{call:.2f}", ""))  # fmt: skip
        linear = Casimir(20, 0.0, smoothing="l2") if loss == "hinge" else SVRG(20, 0.0)
        network = ELUScore(16)
        runs = (
            (type(linear).__name__, linear, None),
            ("prox-linear", ProxLinear(10, 0.0), network),
            ("prox-linear, casimir", ProxLinear(5, 0.0, inner="casimir"), network),
            ("sgd", SGD(20, 0.0), network),
        )
        first = None
        for name, solver, score in runs:
            tagger.set_params(solver=solver, score_function=score)
            seconds, call = fitted(tagger, data.X_train, data.y_train)
            first = first or call
            rows.append(
                (
                    "1000 strings",
                    loss,
                    name,
                    tagger.n_iter_,
                    f"{seconds:.2f}",
                    f"{call:.2f}",
                    f"{call / first:.1f}",
                )
            )
    _common.table(
        "Time: linear scores, and two layers of 8 and 16 units",
        ("data", "loss", "solver", "passes", "s", "ms / n calls", "ratio"),
        rows,
    )


def digit_strings():
    rows = []
    data = load_digit_strings(n_train=1000)
    for alpha in (0.03, 0.05, 0.1):
        tagger = ChainCRF(alpha, random_state=0)
        runs = (
            ("linear, bcfw", tagger.solver, None),
            ("two layers, prox-linear", ProxLinear(100), ELUScore(64)),
            ("two layers, sgd", SGD(60), ELUScore(64)),
        )
        for name, solver, score in runs:
            tagger.set_params(solver=solver, score_function=score)
            seconds, _ = fitted(tagger, data.X_train, data.y_train)
            error = 1.0 - tagger.score(data.X_test, data.y_test)
            rows.append(
                (
                    alpha,
                    name,
                    f"{tagger.objective_:.4f}",
                    f"{100 * error:.2f}",
                    falls(tagger.history_),
                    f"{seconds:.1f}",
                )
            )
    _common.table(
        "Digit strings, 1000 of them: hinge",
        ("alpha", "scores", "objective", "test error %", "falls", "s"),
        rows,
    )


def clutter():
    from _clutter_features import boxes_of, describe, overlap

    train = make_digit_clutter(250, part="train", random_state=0)
    test = make_digit_clutter(200, part="test", random_state=1)
    boxes = boxes_of(train.images.shape[1])
    X_train, X_test = (
        [(describe(image, boxes), boxes) for image in part.images]
        for part in (train, test)
    )
    y_train, y_test = (
        list(zip(part.boxes.tolist(), part.labels, strict=True))
        for part in (train, test)
    )
    rows = []
    runs = (
        ("linear, bcfw", "hinge", "auto", None),
        ("linear, lbfgs", "log", "lbfgs", None),
        ("two layers, prox-linear", "log", ProxLinear(10), ELUScore(32)),
        ("two layers, sgd", "hinge", SGD(15), ELUScore(32)),
        ("two layers, sgd", "log", SGD(15), ELUScore(32)),
    )
    for name, loss, solver, score in runs:
        classifier = SSVMClassifier(
            CandidatesModel(overlap="iou"),
            alpha=1e-3,
            loss=loss,
            solver=solver,
            score_function=score,
            tol=0.01,
            random_state=0,
        )
        seconds, _ = fitted(classifier, X_train, y_train)
        found = classifier.predict(X_test)
        overlaps = np.array(
            [
                overlap(np.array(box)[None], truth)[0]
                for (box, _), truth in zip(found, test.boxes, strict=True)
            ]
        )
        right = [a[1] == b for a, b in zip(found, test.labels, strict=True)]
        error = 1.0 - classifier.score(X_test, y_test)
        rows.append(
            (
                name,
                loss,
                f"{classifier.objective_:.3f}",
                f"{100 * error:.1f}",
                f"{overlaps.mean():.3f}",
                f"{100 * np.mean(right & (overlaps >= 0.5)):.1f}",
                falls(classifier.history_),
                f"{seconds:.1f}",
            )
        )
    _common.table(
        f"Digits in clutter: 250 images, {len(boxes)} boxes each, alpha 0.001",
        (
            "scores",
            "loss",
            "objective",
            "test loss %",
            "overlap",
            "box and digit right %",
            "falls",
            "s",
        ),
        rows,
    )


def main():
    _common.arguments(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    started = time.perf_counter()
    speed()
    digit_strings()
    clutter()
    print(f"\n{time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
