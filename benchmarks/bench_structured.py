"""Structured models: multiclass beside liblinear, the tasks, and a model in Python.

The tasks are those of the examples, with their features: horses over five splits, and
word alignment with one set of sentences to train on.
"""

import sys
import time
import warnings
from pathlib import Path

import _common
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from sksstruct import SSVMClassifier
from sksstruct.datasets import (
    fetch_ocr_letters,
    load_hansards,
    load_weizmann_horses,
)
from sksstruct.metrics import alignment_error_rate, mask_iou_score
from sksstruct.models import GraphModel, MatchingModel, StructuredModel


def crammer_singer(W, b, X, y, alpha):
    """Primal objective."""
    scores = X @ W.T + b
    right = scores[np.arange(len(y)), y]
    scores += 1.0
    scores[np.arange(len(y)), y] -= 1.0
    loss = (scores.max(axis=1) - right).mean()
    return alpha / 2 * ((W**2).sum() + b @ b) + loss


def multiclass(args):
    digits = load_digits()
    ocr = fetch_ocr_letters(data_home=args.data_home)
    fold = np.repeat(ocr.fold, [len(word) for word in ocr.y])
    letters = np.concatenate(ocr.X), np.unique(np.concatenate(ocr.y), return_inverse=1)
    cut = np.arange(len(digits.target)) < 1200
    problems = (
        ("digits", digits.data / 16.0, digits.target, cut, (0.01, 0.1, 1.0)),
        ("OCR letters", letters[0], letters[1][1], fold != 0, (0.001, 0.01, 0.1)),
    )
    rows = []
    for name, X, y, train, grid in problems:
        A, t, B, u = X[train], y[train], X[~train], y[~train]
        for C in grid:
            alpha = 1 / (len(t) * C)
            precise = SSVMClassifier(alpha=alpha, tol=1e-4, random_state=0).fit(A, t)
            bound = precise.objective_ - precise.dual_gap_
            for gap in (1e-2, 1e-3):
                ours = SSVMClassifier(alpha=alpha, tol=gap, random_state=0)
                with _common.Clock() as clock:
                    ours.fit(A, t)
                # the loosest tolerance with which liblinear is as close
                for tol in (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4):
                    peer = LinearSVC(
                        multi_class="crammer_singer",
                        C=C,
                        tol=tol,
                        max_iter=10**5,
                        random_state=0,
                    )
                    with _common.Clock() as other:
                        peer.fit(A, t)
                    theirs = crammer_singer(peer.coef_, peer.intercept_, A, t, alpha)
                    if theirs - bound <= gap:
                        break
                rows.append(
                    [
                        name,
                        C,
                        gap,
                        f"{ours.objective_ - bound:.1e}",
                        f"{theirs - bound:.1e}",
                        f"{clock.seconds:.2f}",
                        f"{other.seconds:.2f}",
                        f"{clock.seconds / other.seconds:.2f}",
                        f"{100 * ours.score(B, u):.2f}",
                        f"{100 * peer.score(B, u):.2f}",
                    ]
                )
    _common.table(
        "Multiclass: SSVMClassifier and LinearSVC(multi_class='crammer_singer')",
        [
            "data",
            "C",
            "gap",
            "above, ours",
            "theirs",
            "seconds",
            "theirs",
            "ratio",
            "test %",
            "theirs",
        ],
        rows,
    )


def horses(args):
    from horse_features import codebooks, graph, majority

    data = load_weizmann_horses(data_home=args.data_home)
    rows, scores = [], []
    for split in range(5):
        order = np.random.default_rng(split).permutation(len(data.images))
        train, test = order[:200], order[200:]
        started = time.process_time()
        books = codebooks([data.images[i] for i in train])
        X, numbers = zip(*(graph(image, books) for image in data.images), strict=True)
        y = [majority(n, m) for n, m in zip(numbers, data.masks, strict=True)]
        features = time.process_time() - started
        row = []
        for inference in ("tree", "cut"):
            model = GraphModel(
                "potts",
                inference=inference,
                class_weight="balanced",
                fit_intercept=False,
            )
            none = np.zeros((0, 2), dtype=int), np.zeros((0, 4))
            inputs = [(x[0], *none) if inference == "tree" else x for x in X]
            classifier = SSVMClassifier(model, alpha=3e-4, tol=0.01, random_state=0)
            with _common.Clock() as clock:
                classifier.fit([inputs[i] for i in train], [y[i] for i in train])
            found = classifier.predict([inputs[i] for i in test])
            masks = [data.masks[i] for i in test]
            pixels = [f[numbers[i]] for f, i in zip(found, test, strict=True)]
            row.append(mask_iou_score(masks, pixels, labels=[1], per="image"))
            row.append(clock.seconds)
        scores.append((row[0], row[2]))
        rows.append([split, f"{features:.1f}", *(f"{value:.3f}" for value in row)])
    gain = np.diff(scores, axis=1).ravel()
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    rows.append(["mean", "", f"{np.mean(scores, axis=0)[0]:.3f}", "",
                 f"{np.mean(scores, axis=0)[1]:.3f}", ""])  # fmt: skip
    _common.table(
        "Horses: intersection over union, superpixels alone and with minimum cuts",
        ["split", "features s", "alone", "s", "cuts", "s"],
        rows,
    )
    print(f"  gain {gain.mean():.4f}, standard error {error:.4f}, "
          f"{gain.mean() / error:.0f} standard errors")  # fmt: skip


def alignment(args):
    from alignment_features import dice_counts, pair_features
    from scipy.optimize import linear_sum_assignment

    data = load_hansards(data_home=args.data_home)
    started = time.process_time()
    dice = dice_counts([*data.trial, *data.test, *data.unaligned])
    X = [pair_features(pair, dice) for pair in data.test]
    links = [pair.links for pair in data.test]
    features = time.process_time() - started

    def by_dice(pairs, threshold):
        found = []
        for pair in pairs:
            worth = np.maximum(dice(pair) - threshold, 0.0)
            columns = np.full(len(worth), -1)
            rows, best = linear_sum_assignment(worth, maximize=True)
            columns[rows] = np.where(worth[rows, best] > 0, best, -1)
            found.append(columns)
        return found

    thresholds = np.arange(0.0, 0.5, 0.02)
    rates = [
        alignment_error_rate(links[:100], by_dice(data.test[:100], t))
        for t in thresholds
    ]
    found = by_dice(data.test[100:], thresholds[int(np.argmin(rates))])
    rows = [["Dice", "", "", f"{100 * alignment_error_rate(links[100:], found):.1f}"]]
    for alpha in (0.1, 0.01, 0.001):
        model = MatchingModel(false_cost=1.0, miss_cost=3.0)
        classifier = SSVMClassifier(model, alpha=alpha, tol=1e-3, random_state=0)
        with _common.Clock() as clock:
            classifier.fit(X[:100], links[:100])
        rate = alignment_error_rate(links[100:], classifier.predict(X[100:]))
        rows.append(
            ["MatchingModel", alpha, f"{clock.seconds:.2f}", f"{100 * rate:.1f}"]
        )
    _common.table(
        f"Word alignment, 100 sentences to train on, 347 to test (features "
        f"{features:.1f} s)",
        ["model", "alpha", "seconds", "AER %"],
        rows,
    )


class Nearest(StructuredModel):
    """Ten classes, written in Python: what a user's model costs beside its oracle."""

    def joint_feature(self, x, y):
        phi = np.zeros((10, len(x)))
        phi[y] = x
        return phi.ravel()

    def loss(self, y, y_hat):
        return float(y != y_hat)

    def decode(self, x, w):
        return int((w.reshape(10, -1) @ x).argmax())

    def loss_augmented_decode(self, x, y, w):
        scores = w.reshape(10, -1) @ x + 1.0
        scores[y] -= 1.0
        return int(scores.argmax())


def python_model(args):
    X, y = load_digits(return_X_y=True)
    X, y = list(X[:1000] / 16.0), [int(k) for k in y[:1000]]
    rows = []
    for solver in ("auto", "bcfw", "ssg", "bmrm"):
        classifier = SSVMClassifier(
            Nearest(), alpha=0.01, solver=solver, tol=0.01, max_iter=50, random_state=0
        )
        with _common.Clock() as clock:
            classifier.fit(X, y)
        calls = int(classifier.history_["oracle_calls"][-1])
        w = classifier.weights_
        model = Nearest()
        with _common.Clock() as own:
            for x, k in zip(X, y, strict=True):
                model.loss_augmented_decode(x, k, w)
        own = own.seconds / len(X) * calls
        over = clock.seconds - own
        rows.append(
            [
                solver,
                calls,
                f"{clock.seconds:.2f}",
                f"{own:.2f}",
                f"{1e6 * over / calls:.0f}",
                f"{calls / over:.0f}",
                f"{classifier.dual_gap_:.4f}",
            ]
        )
    _common.table(
        "A model in Python, 1000 examples, 640 weights",
        [
            "solver",
            "oracle calls",
            "seconds",
            "of the oracle itself",
            "us a call over it",
            "calls/s over it",
            "gap",
        ],
        rows,
    )


def main():
    args = _common.arguments(__doc__)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    multiclass(args)
    python_model(args)
    alignment(args)
    horses(args)


if __name__ == "__main__":
    main()
