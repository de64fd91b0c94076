"""The regularization path on OCR letters: its guarantee, and its cost beside a grid.

Osokin et al. (2016), Section 5.2 and App. K: epsilon = 0.1, and 31 values of alpha from
2^15 to 2^-15, each started from the one before, to a gap of epsilon as well.
"""

import time
import warnings

import _common
import numpy as np
from _chunking import chunking_data
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, ssvm_path
from sksstruct.datasets import fetch_ocr_letters
from sksstruct.estimators._train import prepare
from sksstruct.feature_extraction import SequenceVectorizer

GRID = 2.0 ** np.arange(15, -16, -1)


def guarantee(X, y, path, n=200):
    """Largest distance to a lower bound of the optimum, at random alphas."""
    rng = np.random.RandomState(0)
    alphas = np.sort(10.0 ** rng.uniform(-4, 2, size=n))[::-1]
    tagger = ChainCRF(
        loss_normalization="sequence",
        tol=3e-3,
        max_iter=2000,
        warm_start=True,
        random_state=0,
    )
    model = prepare(ChainCRF(loss_normalization="sequence"), X, y).model
    hinge = np.empty(model.n_examples)
    worst = 0.0
    for alpha in alphas:
        tagger.set_params(alpha=alpha).fit(X, y)
        bound = tagger.objective_ - tagger.dual_gap_
        w = path.weights(alpha)
        model.hinge(model.workspace(w), 0, model.n_examples, hinge)
        value = alpha / 2 * (w @ w) + model.example_weights @ hinge
        worst = max(worst, value - bound)
    return worst


def held_out(path, X, y):
    """Breakpoint of the best held-out letter accuracy, and the accuracy."""
    scores = [path.estimator(alpha).score(X, y) for alpha in path.alphas]
    best = int(np.argmax(scores))
    return path.alphas[best], scores[best]


def main():
    args = _common.arguments(__doc__, large="also OCR large", conll="also CoNLL-2000")
    small = fetch_ocr_letters("fold0", data_home=args.data_home)
    rest = fetch_ocr_letters("rest", data_home=args.data_home)
    problems = [("small", small, rest, 0.1), ("small", small, rest, 0.02)]
    if args.large:
        problems.append(("large", rest, small, 0.1))
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, train, test, epsilon in problems:
        X, y = train.X, train.y
        rows, seconds, paths = [], {}, {}
        for seed in range(1 if name == "large" else 5):
            for method in ("exact", "heuristic", "grid"):  # in turns: it is noisy
                started = time.process_time()
                path = ssvm_path(
                    ChainCRF(loss_normalization="sequence", random_state=seed),
                    X,
                    y,
                    method=method,
                    epsilon=epsilon,
                    alpha_min=GRID[-1],
                )
                spent = time.process_time() - started
                seconds.setdefault(method, []).append(spent)
                paths.setdefault(method, []).append(path)
        for method, found in paths.items():
            path = found[0]
            scores = [held_out(each, test.X, test.y)[1] for each in found]
            alpha = held_out(path, test.X, test.y)[0]
            refit = ChainCRF(
                alpha, loss_normalization="sequence", tol=1e-3, random_state=0
            ).fit(X, y)
            row = [
                method,
                len(path),
                f"{path.lower[-1]:.1e}",
                path.n_iter[-1],
                f"{path.oracle_calls[-1] / len(X):.0f}",
                f"{np.median(seconds[method]):.2f}",
                f"{alpha:.2g}",
                f"{100 * np.mean(scores):.2f} +- {100 * np.std(scores):.2f}",
                f"{100 * refit.score(test.X, test.y):.2f}",
            ]
            guaranteed = method == "exact" and epsilon == 0.1 and name == "small"
            row.append(f"{guarantee(X, y, path):.4f}" if guaranteed else "")
            rows.append(row)
        _common.table(
            f"OCR {name}, epsilon {epsilon}",
            [
                "method",
                "segments",
                "good down to",
                "passes",
                "sweeps",
                "seconds",
                "best alpha",
                "held out %",
                "trained there %",
                "worst of 200",
            ],
            rows,
        )
    rows = []
    for kappa in (0.3, 0.5, 0.7, 0.9, 0.99):
        path = ssvm_path(
            ChainCRF(loss_normalization="sequence", random_state=0),
            small.X,
            small.y,
            epsilon=0.1,
            kappa=kappa,
        )
        rows.append(
            [
                kappa,
                len(path),
                path.n_iter[-1],
                f"{path.oracle_calls[-1] / len(small.X):.0f}",
                f"{path.seconds[-1]:.2f}",
            ]
        )
    _common.table(
        "OCR small, exact path",
        ["kappa", "segments", "passes", "sweeps", "seconds"],
        rows,
    )

    if args.conll:
        X, y = chunking_data("train", args.data_home)
        X = SequenceVectorizer(dtype=np.float32).fit_transform(X)
        path = ssvm_path(
            ChainCRF(loss_normalization="sequence", random_state=0),
            X,
            y,
            epsilon=0.05,
            alpha_min=1e-3,
        )
        kept = sum(values.nbytes for _, _, values in path._weights) / 1e6
        print(
            f"\nCoNLL-2000, epsilon 0.05: {len(path)} segments down to "
            f"{path.lower[-1]:.1e}, {path.oracle_calls[-1] / len(y):.0f} sweeps, "
            f"{path.seconds[-1]:.1f} s, weights {kept:.0f} MB"
        )


if __name__ == "__main__":
    main()
