"""Long sequences and time series.

python benchmarks/bench_series.py [--only iterations]
"""

import argparse
import itertools
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SegmentCRF
from sksstruct.solvers import LBFGS


def generated(n_sequences, size, n_labels, longest, seed=0):
    """Series of four measurements, whose runs have any length up to the longest."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_labels, 4))
    X, y = [], []
    for _ in range(n_sequences):
        labels: list[int] = []
        while len(labels) < size:
            others = [k for k in range(n_labels) if labels[-1:] != [k]]
            labels += [int(rng.choice(others))] * int(rng.integers(1, longest + 1))
        # of each label a run of the largest length may be cut at the end
        y.append(labels[:size])
        X.append(means[y[-1]] + rng.normal(size=(size, 4)))
    return X, y


def seconds_of(estimator, X, y):
    """CPU seconds of a fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        estimator.fit(X, y)
    return time.process_time() - start


def per_position(estimator, X, y, few=2, many=12):
    """CPU microseconds of an iteration of L-BFGS for each position."""
    times = []
    for n in few, many:
        estimator.set_params(solver=LBFGS(n, tol=0.0))
        times.append(min(seconds_of(estimator, X, y) for _ in range(3)))
    return 1e6 * (times[1] - times[0]) / (many - few) / sum(map(len, y))


def iterations():
    """An iteration of the likelihood: lengths and labels, beside the chain."""
    print("CPU microseconds of an L-BFGS iteration, for each position")
    print(f"{'labels':>6} {'lengths':>7} {'chain':>7} {'segments':>8} {'ratio':>6}")
    for n_labels, longest in itertools.product((2, 5, 20), (8, 50, 200)):
        X, y = generated(8, 2500, n_labels, longest)
        chain = ChainCRF(loss="log")
        segments = SegmentCRF(loss="log", length_features=longest)
        first, second = (per_position(each, X, y) for each in (chain, segments))
        ratio = second / first
        row = f"{n_labels:6} {longest:7} {first:7.2f} {second:8.2f} {ratio:6.1f}"
        print(row, flush=True)


SECTIONS = {"iterations": iterations}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, nargs="+", default=list(SECTIONS))
    for name in parser.parse_args().only:
        SECTIONS[name]()
