"""All solvers on one clock: objective, dual, gap and test error.

Runs every solver on OCR letters (small and large), CoNLL-2000 chunking and a9a for some
seconds each, prints where it got, and draws gap, objective and test error against
seconds and oracle calls. Then the figures of single methods: the projections, Pragam
beside liblinear, and the likelihood of CoNLL-2000 beside CRFsuite.
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

from _common import Clock, table

from _chunking import chunking_data  # isort: skip
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from sksstruct import ChainCRF, LinearSSVC
from sksstruct.datasets import fetch_ocr_letters
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.plotting import ConvergenceDisplay
from sksstruct.projections import project_box_equality, project_simplex
from sksstruct.solvers import (
    BCFW,
    BMRM,
    DCD,
    LBFGS,
    SDCA,
    SGD,
    SSG,
    SVRG,
    Casimir,
    CuttingPlane,
    FrankWolfe,
    Pragam,
    resolve_solver,
)

PARTS = ("calls", "ocr", "conll", "a9a", "projections", "pragam", "crf")
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data-home", default=None, help="folder of the data sets")
parser.add_argument(
    "--out", default="benchmarks/plots", help="where to write PNG files"
)
parser.add_argument("--seconds", type=float, default=1.0, help="factor of all budgets")
parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
args = parser.parse_args()
out = Path(args.out)
out.mkdir(parents=True, exist_ok=True)
warnings.simplefilter("ignore", ConvergenceWarning)
FOREVER = 10**9

HINGE = {
    "BCFW, as published": BCFW.as_published(max_iter=FOREVER, tol=0.0, check_every=5),
    "BCFW, auto": resolve_solver("auto", max_iter=FOREVER, tol=0.0),
    "Frank-Wolfe": FrankWolfe(FOREVER, 0.0),
    "SSG, 1 / (alpha t)": SSG(FOREVER, 0.0),
    "SSG, constant then decay": SSG(FOREVER, 0.0, step_size="constant_then_decay"),
    "BMRM": BMRM(FOREVER, 0.0),
    "n-slack cutting planes": CuttingPlane(FOREVER, 0.0),
    "Casimir, adaptive": Casimir(FOREVER, 1e-3),
    "Casimir, constant": Casimir(FOREVER, 1e-3, schedule="constant"),
    "Casimir, entropy": Casimir(FOREVER, 1e-3, smoothing="entropy"),
}
# Oracle calls per example at which the distance to the optimum is looked at.
CALLS = (10, 30, 100)
BINARY = {
    "BCFW, auto": HINGE["BCFW, auto"],
    "Frank-Wolfe": HINGE["Frank-Wolfe"],
    "SSG, 1 / (alpha t)": HINGE["SSG, 1 / (alpha t)"],
    "BMRM": HINGE["BMRM"],
    "BMRM, line search": BMRM(FOREVER, 0.0, inner="line_search"),
    "n-slack cutting planes": HINGE["n-slack cutting planes"],
    "Pragam": Pragam(FOREVER, 0.0),
    "Pragam, no restarts": Pragam(FOREVER, 0.0, restart=False),
}
SMOOTH = {
    "L-BFGS": LBFGS(FOREVER, 1e-9),
    "SVRG": SVRG(FOREVER, 1e-9),
    "SDCA": SDCA(FOREVER, 1e-9),
    "SGD": SGD(FOREVER, 0.0),
    "Casimir, constant": Casimir(FOREVER, 1e-9, schedule="constant"),
    "Casimir, adaptive": Casimir(FOREVER, 1e-9),
}


class Budget:
    """Ends a fit after some seconds; keeps models at doubling times."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.models = []

    def setup(self, estimator, context):
        self.start, self.next = time.perf_counter(), self.seconds / 128

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        now = time.perf_counter() - self.start
        if context.task_name == "pass" and now > self.next:
            self.models.append((now, fitted_estimator))
            self.next = 2 * now
        return now > self.seconds

    def teardown(self, estimator, context):
        pass


def compare(name, estimator, solvers, train, test, seconds):
    """Fit with each solver; a table and two figures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = train
    rows, runs = [], []
    for label, solver in solvers.items():
        budget = Budget(seconds * args.seconds)
        model = estimator.set_params(solver=solver).set_callbacks(budget)
        model = type(model)(**model.get_params(deep=False)).set_callbacks(budget)
        model.fit(X, y)
        errors = [(t, 100 * (1 - m.score(*test))) for t, m in budget.models]
        error = 100 * (1 - model.score(*test))
        errors.append((model.history_["seconds"][-1], error))
        runs.append((label, model, errors))
        h = model.history_
        rows.append(
            [
                label,
                model.n_iter_,
                f"{h['oracle_calls'][-1] / X_size(X):.0f}",
                f"{h['seconds'][-1]:.1f}",
                f"{model.objective_:.6f}",
                f"{h['dual'][-1]:.6f}",
                f"{model.dual_gap_:.1e}",
                f"{error:.2f}",
            ]
        )
    best = max(m.history_["dual"][-1] for _, m, _ in runs)
    for row, (_, model, _) in zip(rows, runs, strict=True):
        row.insert(7, f"{(model.objective_ - best) / abs(best):.1e}")
    header = ["solver", "passes", "calls / n", "seconds", "primal", "dual", "gap"]
    table(name, [*header, "above best dual, relative", "test error %"], rows)

    figure, axes = plt.subplots(2, 3, figsize=(16, 9), layout="constrained")
    for line, x in zip(axes, ("seconds", "oracle_calls"), strict=True):
        for label, model, errors in runs:
            for ax, y_axis in zip(line, ("gap", "primal"), strict=False):
                ConvergenceDisplay.from_estimator(
                    model, x=x, y=y_axis, name=label, ax=ax, linewidth=1
                )
                ax.set_xscale("log")
            times = np.array([t for t, _ in errors])
            if x == "oracle_calls":
                h = model.history_
                times = np.interp(times, h["seconds"], h["oracle_calls"])
            line[2].semilogx(times, [e for _, e in errors], label=label)
        line[1].set_yscale("log")
        line[2].set(xlabel=x.replace("_", " "), ylabel="test error, %")
        line[2].legend(fontsize="small")
    figure.suptitle(name)
    path = out / f"{name.split(',')[0].lower().replace(' ', '_')}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"  wrote {path}")


def distances(name, alpha, X, y, solvers):
    """Distance to the optimum after some oracle calls per example."""
    n = X_size(X)
    best = ChainCRF(alpha, loss_normalization="sequence", random_state=0, tol=1e-5)
    best = best.set_params(max_iter=100_000).fit(X, y)
    optimum = best.objective_ - best.dual_gap_ / 2
    rows = []
    for label, solver in solvers.items():
        # no pass takes less than a call for each example
        solver = clone(solver).set_params(max_iter=CALLS[-1])
        model = ChainCRF(
            alpha, loss_normalization="sequence", solver=solver, random_state=0
        )
        with Clock() as clock:
            model.fit(X, y)
        h = model.history_
        row = [label]
        for calls in CALLS:
            reached = h["primal"][h["oracle_calls"] <= calls * n]
            row.append(f"{reached[-1] - optimum:.4f}" if len(reached) else "")
        rows.append([*row, f"{clock.seconds:.1f}"])
    title = f"{name}: above the optimum of {optimum:.5f} after so many calls / n"
    table(title, ["solver", *map(str, CALLS), "seconds"], rows)


def X_size(X):
    """Number of examples."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def a9a():
    """Training and test set; 32-bit indices, as liblinear wants them."""
    home = args.data_home or os.environ.get("SKSSTRUCT_DATA")
    if home is None:
        raise SystemExit("name the folder of the data sets: --data-home")
    parts = []
    for part in ("train", "test"):
        path = str(Path(home) / "binary" / f"a9a_{part}.svm.gz")
        X, y = load_svmlight_file(path, n_features=123)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        parts.append((X, y))
    return parts


if "calls" in args.only:
    small = fetch_ocr_letters("fold0", data_home=args.data_home)
    every = {
        **HINGE,
        "BCFW, checked every pass": BCFW.as_published(
            max_iter=FOREVER, tol=0.0, check_every=1
        ),
        "Casimir, previous": Casimir(FOREVER, 1e-3, start="previous"),
        "Casimir, extrapolation": Casimir(FOREVER, 1e-3, start="extrapolation"),
    }
    distances("OCR small, alpha = 1/626", 1 / 626, small.X, small.y, every)

if "ocr" in args.only:
    small = fetch_ocr_letters("fold0", data_home=args.data_home)
    large = fetch_ocr_letters("rest", data_home=args.data_home)
    splits = (small.X, small.y), (large.X, large.y)
    some = {**HINGE, "Pragam, first 60 words": Pragam(FOREVER, 0.0)}
    tagger = ChainCRF(alpha=1 / 626, loss_normalization="sequence", random_state=0)
    compare("OCR small, alpha = 1/626", tagger, HINGE, *splits, 5)
    few = (small.X[:60], small.y[:60])
    some = {k: HINGE[k] for k in ("BCFW, auto", "BMRM", "n-slack cutting planes")}
    some["Pragam"] = Pragam(FOREVER, 0.0, check_every=2)
    tagger = ChainCRF(0.01, loss_normalization="sequence", random_state=0)
    compare("OCR 60 words, alpha = 0.01", tagger, some, few, splits[1], 10)
    tagger = ChainCRF(alpha=0.001, loss_normalization="sequence", random_state=0)
    compare("OCR large, alpha = 0.001", tagger, HINGE, *splits[::-1], 15)
    tagger = ChainCRF(alpha=0.001, loss="log", random_state=0)
    compare("OCR large likelihood, alpha = 0.001", tagger, SMOOTH, *splits[::-1], 10)

if {"calls", "conll", "crf"} & set(args.only):
    features, labels = chunking_data("train", args.data_home)
    vectorizer = SequenceVectorizer()
    packed = vectorizer.fit_transform(features)
    test_features, test_labels = chunking_data("test", args.data_home)
    known = set(np.concatenate(labels).tolist())
    keep = [i for i, row in enumerate(test_labels) if set(row) <= known]
    packed_test = vectorizer.transform(test_features)
    n = len(packed)

if "calls" in args.only:
    distances("CoNLL-2000, alpha = 0.02", 0.02, packed, labels, every)

if "conll" in args.only:
    compare(
        "CoNLL-2000, alpha = 0.02",
        ChainCRF(alpha=0.02, loss_normalization="sequence", random_state=0),
        {k: v for k, v in HINGE.items() if "entropy" not in k},
        (packed, labels),
        (packed_test, test_labels),
        20,
    )

if "a9a" in args.only:
    train, test = a9a()
    for c in (0.01, 1.0):
        alpha = 1 / (len(train[1]) * c)
        compare(
            f"a9a C = {c:g}, no bias",
            LinearSSVC(alpha, fit_intercept=False, random_state=0),
            BINARY,
            train,
            test,
            5,
        )

if "projections" in args.only:
    rows = []
    rng = np.random.RandomState(0)
    for n_entries in (10**3, 10**4, 10**5, 10**6, 10**7):
        z = rng.normal(size=n_entries)
        signs = rng.choice([-1.0, 1.0], size=n_entries)
        repeat = max(1, 10**6 // n_entries)
        row = [f"{n_entries:.0e}"]
        results = []
        for method in ("median", "sort"):
            with Clock() as clock:
                for _ in range(repeat):
                    x = project_box_equality(z, 0.0, 1.0, signs, 0.0, method=method)
            row.append(f"{1e9 * clock.seconds / repeat / n_entries:.1f}")
            results.append(x)
        row.append(f"{np.abs(results[0] - results[1]).max():.0e}")
        for method in ("partition", "sort"):
            with Clock() as clock:
                for _ in range(repeat):
                    project_simplex(z, method=method)
            row.append(f"{1e9 * clock.seconds / repeat / n_entries:.1f}")
        rows.append(row)
    table(
        "Projections, ns an entry: box with one equality, by medians and by sorting, "
        "and their largest difference; simplex, by partitioning and by sorting",
        ["n", "box, medians", "box, sort", "difference", "simplex", "simplex, sort"],
        rows,
    )

if "pragam" in args.only:
    (X, y), test = a9a()
    rows = []
    for c in (0.01, 0.1, 1.0):
        alpha = 1 / (len(y) * c)
        precise = LinearSVC(loss="hinge", C=c, fit_intercept=False, tol=1e-8,
                            max_iter=10**7, random_state=0).fit(X, y)  # fmt: skip

        def objective(w, alpha=alpha):
            return alpha / 2 * w @ w + np.maximum(0.0, 1.0 - y * (X @ w)).mean()

        best = objective(precise.coef_[0])
        for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
            with Clock() as clock:
                peer = LinearSVC(loss="hinge", C=c, fit_intercept=False, tol=tol,
                                 max_iter=10**7, random_state=0).fit(X, y)  # fmt: skip
            theirs = clock.seconds
            reached = (objective(peer.coef_[0]) - best) / best
            if reached <= 1e-6:
                break
        for label, solver in (
            # its tolerance is relative to the objective reached
            ("DCD", DCD(10**6, 1e-6)),
            ("Pragam", Pragam(10**6, 1e-6 * best)),
            ("BCFW, auto", resolve_solver("auto", max_iter=10**6, tol=1e-6 * best)),
            ("n-slack cutting planes", CuttingPlane(10**6, 1e-6 * best)),
        ):
            with Clock() as clock:
                model = LinearSSVC(
                    alpha, fit_intercept=False, solver=solver, random_state=0
                ).fit(X, y)
            rows.append(
                [
                    f"{c:g}",
                    label,
                    model.n_iter_,
                    f"{clock.seconds:.2f}",
                    f"{model.dual_gap_ / model.objective_:.1e}",
                    f"{(model.objective_ - best) / best:.1e}",
                    f"{theirs:.2f}",
                    f"{reached:.1e}",
                    f"{clock.seconds / theirs:.1f}",
                ]
            )
    table(
        "a9a to a relative gap of 1e-6, beside liblinear at the same objective",
        ["C", "solver", "passes", "seconds", "relative gap", "above optimum",
         "liblinear s", "its objective", "ratio"],
        rows,
    )  # fmt: skip

if "crf" in args.only:
    # CRFsuite's objective, see bench_conll.py
    crf = {
        "alpha": 2 / n,
        "loss": "log",
        "fit_intercept": False,
        "boundary": False,
        "all_possible_states": False,
        "all_possible_transitions": False,
    }
    rows, theirs, value = [], None, None
    try:
        import pycrfsuite
    except ImportError:
        print("python-crfsuite is not installed: no comparison")
    else:
        with tempfile.TemporaryDirectory() as folder:
            trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
            for row, row_labels in zip(features, labels, strict=True):
                row = [[f.replace("=", ":", 1) for f in token] for token in row]
                trainer.append(pycrfsuite.ItemSequence(row), row_labels)
            with Clock() as clock:
                trainer.train(str(Path(folder) / "model"))
        theirs, value = clock.seconds, trainer.logparser.last_iteration["loss"]
        rows.append(["CRFsuite, L-BFGS", f"{theirs:.1f}", f"{value:.1f}", "", "1", ""])
    for label, solver in (
        ("SVRG", SVRG()),
        ("SVRG, seed 1", SVRG()),
        ("Casimir, constant", Casimir(schedule="constant")),
        ("L-BFGS", LBFGS()),
        ("SDCA", SDCA()),
        ("SGD", SGD()),
    ):
        with Clock() as clock:
            model = ChainCRF(solver=solver, random_state=label.count("1"), **crf)
            model.fit(packed, labels)
        rows.append([label, f"{clock.seconds:.1f}", f"{n * model.objective_:.1f}"])
        within = "" if value is None else f"{n * model.objective_ / value - 1:.1e}"
        rows[-1] += [within, "" if theirs is None else f"{clock.seconds / theirs:.2f}"]
        if value is not None:
            near = n * model.history_["primal"] <= 1.001 * value
            rows[-1].append(f"{model.history_['seconds'][near.argmax()]:.1f}")
    table(
        "Likelihood of CoNLL-2000, default tolerance (asked: 1e-3 above CRFsuite's "
        "objective in a fifth of its time)",
        ["who", "CPU seconds", "objective", "above CRFsuite's", "part of its time"]
        + ["seconds to 1e-3 above"] * (value is not None),
        rows,
    )
