"""Training in blocks: passes, oracle calls and seconds to a gap of 0.01, by blocks.

CPU seconds are those of all threads, and of this process alone; wall clock is what
threads are for, and needs an idle machine.
"""

import argparse
import time
import warnings

from _common import Clock, table

from _chunking import chunking_data  # isort: skip
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.datasets import fetch_ocr_letters
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.solvers import Partitioned

import numpy as np  # isort: skip

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("problem", choices=["ocr", "conll2000", "likelihood"])
parser.add_argument("--data-home", default=None, help="folder of the data sets")
parser.add_argument("--blocks", type=int, nargs="*", default=[1, 2, 4, 16, 64, 256])
parser.add_argument("--rounds", type=int, nargs="*", default=[1, 4])
parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
parser.add_argument("--passes", type=int, default=200, help="largest number of passes")
args = parser.parse_args()

if args.problem == "ocr":
    data = fetch_ocr_letters("rest", data_home=args.data_home)
    # in random order: neighbors are the same words, in different hands
    order = np.random.RandomState(0).permutation(len(data.X))
    X, y = [data.X[i] for i in order], [data.y[i] for i in order]
    problem = {"alpha": 0.001, "loss_normalization": "sequence"}
else:
    features, y = chunking_data("train", args.data_home)
    X = SequenceVectorizer().fit_transform(features)
    problem = {"loss": "log" if args.problem == "likelihood" else "hinge"}


def row(name, solver, n_jobs):
    """One line of the table: a fit."""
    tagger = ChainCRF(solver=solver, tol=0.01, random_state=0, n_jobs=n_jobs, **problem)
    started = time.perf_counter()
    with Clock() as clock:
        tagger.fit(X, y)
    return [
        name,
        n_jobs,
        tagger.n_iter_,
        f"{tagger.history_['oracle_calls'][-1] / len(y):.0f}",
        f"{tagger.dual_gap_:.4f}",
        f"{clock.seconds:.1f}",
        f"{time.perf_counter() - started:.1f}",
    ]


warnings.simplefilter("ignore", ConvergenceWarning)
rows = [row("solver='auto'", "auto", 1)]
for blocks in args.blocks:
    for rounds in args.rounds:
        solver = Partitioned(
            blocks=blocks, rounds=rounds, tol=0.01, max_iter=args.passes
        )
        name = f"blocks={blocks}, rounds={rounds}"
        rows += [row(name, solver, n_jobs) for n_jobs in args.jobs]
table(
    f"{args.problem}: to a gap of 0.01",
    ["solver", "threads", "passes", "calls / n", "gap", "CPU s", "wall s"],
    rows,
)
