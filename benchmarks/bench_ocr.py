"""OCR letters, small and large: objective, cost of a pass, time to a gap, error."""

import warnings

from _common import Clock, arguments, bind, pass_against_sweep, sweep_seconds, table
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from sksstruct import ChainCRF
from sksstruct.datasets import fetch_ocr_letters
from sksstruct.solvers import BCFW

import numpy as np  # isort: skip

args = arguments(__doc__)
small = fetch_ocr_letters("fold0", data_home=args.data_home)
large = fetch_ocr_letters("rest", data_home=args.data_home)

warnings.simplefilter("ignore", ConvergenceWarning)
rows = []
for alpha in (1 / 626, 0.01, 0.001):
    plain = BCFW.as_published(
        sampling="permutation", averaging=False, max_iter=50, tol=0.0, check_every=50
    )
    primal, dual, error, seconds = [], [], [], []
    for seed in range(10):
        with Clock() as clock:
            model = ChainCRF(
                alpha, loss_normalization="sequence", solver=plain, random_state=seed
            )
            model.fit(small.X, small.y)
        primal.append(model.objective_)
        dual.append(model.objective_ - model.dual_gap_)
        error.append(100 * (1 - model.score(large.X, large.y)))
        seconds.append(clock.seconds)
    rows.append(
        [
            f"{alpha:.6f}",
            f"{np.mean(primal):.4f} +- {np.std(primal):.4f}",
            f"{np.mean(dual):.5f} +- {np.std(dual):.5f}",
            f"{np.mean(error):.1f}",
            f"{np.mean(seconds):.2f}",
        ]
    )
table(
    "OCR small, plain BCFW, permutation, no averaging, 50 passes, mean of 10 seeds "
    "(optimum at 1/626 in [0.049081, 0.049108], at 0.01 in [0.165030, 0.165032], at "
    "0.001 in [0.033102, 0.033125])",
    ["alpha", "primal", "dual", "test letter error %", "CPU s"],
    rows,
)

rows = []
for name, data, alpha in (("small", small, 1 / 626), ("large", large, 0.001)):
    one_pass, sweep = pass_against_sweep(data.X, data.y, alpha)
    rows.append([name, f"{1e3 * sweep:.2f}", f"{1e3 * one_pass:.2f}"])
    rows[-1].append(f"{one_pass / sweep:.2f}")
table(
    "A plain BCFW pass against a bare sweep of the oracles, one thread (target: 2.5)",
    ["problem", "sweep ms", "pass ms", "ratio"],
    rows,
)

rows = []
for name, data, alpha, limit in (
    ("small", small, 1 / 626, 1500),
    ("large", large, 0.001, 700),
):
    sweep_model = bind(data.X, data.y)
    w = np.zeros(sweep_model.n_weights)
    for seed in range(3):
        model = ChainCRF(
            alpha, loss_normalization="sequence", tol=0.01, random_state=seed
        )
        with Clock() as clock:
            model.fit(data.X, data.y)
        # The weights decide how much work a sweep is: those of the solution.
        for key, block in sweep_model.views(w).items():
            block[...] = getattr(
                model,
                {"coef": "coef_", "start": "start_", "end": "end_"}.get(key, key + "_"),
            )
        sweep = sweep_seconds(sweep_model, w)
        history = model.history_
        rows.append(
            [
                name,
                seed,
                model.n_iter_,
                f"{history['oracle_calls'][-1] / len(data.X):.0f}",
                f"{model.objective_:.5f}",
                f"{model.dual_gap_:.5f}",
                f"{clock.seconds:.2f}",
                f"{1e3 * sweep:.2f}",
                f"{clock.seconds / sweep:.0f}",
                limit,
            ]
        )
table(
    'ChainCRF(solver="auto") to a duality gap of 0.01, whole fit, in bare sweeps',
    [
        "problem",
        "seed",
        "passes",
        "oracle calls / n",
        "primal",
        "gap",
        "CPU s",
        "sweep ms",
        "sweeps",
        "target",
    ],
    rows,
)

rows = []
with Clock() as clock:
    search = GridSearchCV(
        ChainCRF(loss_normalization="sequence", random_state=0),
        {"alpha": [3e-4, 1e-3, 3e-3]},
        cv=3,
    ).fit(large.X, large.y)
rows.append(
    [
        f"ChainCRF, grid of 3, alpha={search.best_params_['alpha']}",
        f"{100 * (1 - search.score(small.X, small.y)):.2f}",
        f"{clock.seconds:.1f}",
    ]
)
with Clock() as clock:
    svc = LinearSVC(multi_class="crammer_singer", C=0.1, random_state=0)
    svc.fit(np.vstack(large.X), np.concatenate(large.y))
error = 1 - svc.score(np.vstack(small.X), np.concatenate(small.y))
rows.append(
    ["LinearSVC, letter by letter", f"{100 * error:.2f}", f"{clock.seconds:.1f}"]
)
table(
    "OCR large: nine folds train, fold 0 tests (target: 12 %)",
    ["who", "letter error %", "CPU s"],
    rows,
)
