"""Structured models: multiclass beside liblinear, the tasks, and a model in Python.

The tasks are those of the examples, with their features: horses over five splits, and
word alignment with one set of sentences to train on.
"""

import argparse
import runpy
import sys
import time
import warnings
from pathlib import Path

import _common
import _label_sets
import _multilabel
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from sksstruct import SSVMClassifier
from sksstruct.datasets import (
    fetch_ocr_letters,
    load_hansards,
    load_weizmann_horses,
    make_stick_figures,
)
from sksstruct.metrics import alignment_error_rate, mask_iou_score
from sksstruct.models import (
    GraphModel,
    MatchingModel,
    PartsModel,
    StructuredModel,
    grid_graph,
)
from sksstruct.solvers import BCFW


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
    from _horse_features import codebooks, graph, majority

    data = load_weizmann_horses(data_home=args.data_home)
    variants = {
        "superpixels alone": ("tree", 3e-4, True),
        "cuts": ("cut", 3e-4, True),
        "cuts, alpha 1e-4": ("cut", 1e-4, True),
        "cuts, no areas": ("cut", 3e-4, False),
    }
    scores, seconds = [], []
    for split in range(5):
        order = np.random.default_rng(split).permutation(len(data.images))
        train, test = order[:200], order[200:]
        books = codebooks([data.images[i] for i in train])
        X, numbers = zip(*(graph(image, books) for image in data.images), strict=True)
        y = [majority(n, m) for n, m in zip(numbers, data.masks, strict=True)]
        masks = [data.masks[i] for i in test]
        for inference, alpha, areas in variants.values():
            model = GraphModel(
                "potts", inference=inference, class_weight="balanced", normalize=True
            )
            change = {} if areas else {"node_weights": None}
            if inference == "tree":
                change["edges"] = np.zeros((0, 2), dtype=int)
                change["edge_features"] = np.zeros((0, 4))
            inputs = [x._replace(**change) for x in X]
            classifier = SSVMClassifier(model, alpha=alpha, tol=0.01, random_state=0)
            with _common.Clock() as clock:
                classifier.fit([inputs[i] for i in train], [y[i] for i in train])
            found = classifier.predict([inputs[i] for i in test])
            pixels = [f[numbers[i]] for f, i in zip(found, test, strict=True)]
            scores.append(mask_iou_score(masks, pixels, labels=[1], per="image"))
            seconds.append(clock.seconds)
    scores, seconds = (np.reshape(v, (5, -1)) for v in (scores, seconds))
    rows = [
        [name, f"{seconds[:, k].mean():.2f}", *(f"{v:.3f}" for v in scores[:, k]),
         f"{scores[:, k].mean():.3f}"]
        for k, name in enumerate(variants)
    ]  # fmt: skip
    _common.table(
        "Horses: intersection over union on five splits",
        ["model", "seconds", *map(str, range(5)), "mean"],
        rows,
    )
    gain = scores[:, 1] - scores[:, 0]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    print(f"  gain of cuts {gain.mean():.4f}, standard error {error:.4f}, "
          f"{gain.mean() / error:.0f} standard errors")  # fmt: skip


def images(args):
    """Noisy images, with features as they are and divided by the number of nodes."""
    rng = np.random.default_rng(0)
    masks = [gaussian_filter(rng.normal(size=(20, 20)), 3) > 0 for _ in range(40)]
    X = [grid_graph(m + rng.normal(size=m.shape), edge_features=None) for m in masks]
    rows = []
    for normalize in (False, "auto"):
        model = GraphModel("potts", normalize=normalize)
        classifier = SSVMClassifier(model, alpha=1e-3, random_state=0)
        with _common.Clock() as clock:
            classifier.fit(X[:20], masks[:20])
        score = classifier.score(X[20:], masks[20:])
        rows.append(
            [normalize, f"{clock.seconds:.2f}", classifier.n_iter_,
             f"{classifier.dual_gap_:.4f}", f"{score:.4f}"]
        )  # fmt: skip
    _common.table(
        "Twenty images of 20 x 20 pixels, minimum cuts, alpha 1e-3",
        ["normalize", "seconds", "passes", "gap", "test score"],
        rows,
    )


def pose(args):
    from _figure_features import patches

    rows = []
    for name, n_train, n_test, figures in (
        ("one posture", 50, 80, {}),
        ("arms raised or not", 100, 100, {"wobble": 0.12, "raised": 0.5}),
    ):
        train = make_stick_figures(n_train, **figures, random_state=0)
        test = make_stick_figures(n_test, **figures, random_state=1)
        A, B = ([patches(image) for image in d.images] for d in (train, test))
        for springs, edges, types in (
            ("none", [], {}),
            ("one type", train.bones, {}),
            ("2 types, bias only", train.bones, {"n_types": 2, "type_features": False}),
            ("2 types", train.bones, {"n_types": 2}),
        ):
            model = PartsModel(edges, unit=5.0, **types)
            classifier = SSVMClassifier(model, alpha=0.01, tol=0.03, random_state=0)
            with _common.Clock() as clock:
                classifier.fit(A, list(train.joints))
            loss = 1 - classifier.score(B, list(test.joints))
            found = np.array(classifier.predict(B))
            distance = np.linalg.norm(found - test.joints, axis=2)
            rows.append(
                [name, springs, f"{clock.seconds:.1f}", classifier.n_iter_,
                 f"{classifier.dual_gap_:.3f}", f"{loss:.3f}",
                 f"{100 * (distance < 3).mean():.1f}",
                 f"{100 * (distance[:, 3:7] < 3).mean():.1f}"]
            )  # fmt: skip
    _common.table(
        "Stick figures: parts with springs, 11 joints in 40 x 32 pixels",
        ["data", "springs", "seconds", "passes", "gap", "test loss", "within 3 %",
         "arms %"],
        rows,
    )  # fmt: skip


def localization(args):
    """The example on digits in clutter, which prints its figures."""
    import matplotlib

    matplotlib.use("Agg")
    print("\nDigits in clutter: all boxes of nine sizes, any of ten digits")
    with _common.Clock() as clock:
        runpy.run_path(str(Path(sys.path[0]) / "plot_digit_clutter.py"))
    print(f"  {clock.seconds:.1f} s in all")


def alignment(args):
    from _alignment_features import dice_counts, pair_features
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
    limits = {"tol": 0.01, "max_iter": 50}
    published = BCFW.as_published(**limits)
    for name in ("bcfw", "published", "ssg", "bmrm"):
        solver = published if name == "published" else name
        classifier = SSVMClassifier(
            Nearest(), alpha=0.01, solver=solver, **limits, random_state=0
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
                name,
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


def multilabel(args):
    _multilabel.compare(
        args.sets, args.methods, args.data_home, args.budget, args.folder
    )


TASKS = {
    task.__name__: task
    for task in (
        multiclass, python_model, alignment, horses, images, pose, localization,
        multilabel,
    )
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--only", choices=TASKS)
    label_sets = parser.add_argument_group("multilabel")
    label_sets.add_argument(
        "--sets", nargs="+", default=_label_sets.SETS, choices=_label_sets.SETS
    )
    label_sets.add_argument("--methods", nargs="+", help="those of the first column")
    label_sets.add_argument("--budget", type=float, default=600.0, help="CPU seconds")
    label_sets.add_argument("--folder", help="doc/benchmarks, to replace its tables")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    for name, task in TASKS.items():
        if args.only in (None, name):
            task(args)


if __name__ == "__main__":
    main()
