"""What the benchmarks share: data, timing, tables."""

import argparse
import os
import time

# One thread, as the tables say; set before NumPy loads its BLAS.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.protocols._weights import Weights
from sksstruct.utils.validation import LabelEncoder, check_labels, check_sequences


def arguments(description, **flags):
    """Command line with ``--data-home`` and the given on/off flags."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    return parser.parse_args()


def table(title, header, rows):
    """Print rows of strings and numbers under a header."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    print(f"\n{title}")
    for i, row in enumerate(cells):
        print(
            "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        )
        if i == 0:
            print("  " + "  ".join("-" * w for w in widths))


def live_table(title, rows):
    """Print rows, which are dicts, each as soon as it is there; return them."""
    print(f"\n{title}")
    out = []
    for row in rows:
        widths = [max(len(name), 9) for name in row]
        if not out:
            print("  " + "  ".join(map(str.ljust, row, widths)))
            print("  " + "  ".join("-" * width for width in widths))
        cells = map(str, row.values())
        print("  " + "  ".join(map(str.ljust, cells, widths)), flush=True)
        out.append(row)
    return out


class Clock:
    """CPU seconds of a block."""

    def __enter__(self):
        self._start = time.process_time()
        return self

    def __exit__(self, *error):
        self.seconds = time.process_time() - self._start


def bind(X, y):
    """Chain model bound to training data, as `ChainCRF.fit` does it."""
    packed = check_sequences(X).compact()
    flat = check_labels(y, packed.lengths)
    encoder = LabelEncoder.from_labels(flat)
    return BoundChain(packed, len(encoder.classes_), encoder.encode(flat))


def median_seconds(function, repeat):
    """Median CPU seconds of calls."""
    seconds = []
    for _ in range(repeat):
        with Clock() as clock:
            function()
        seconds.append(clock.seconds)
    return float(np.median(seconds))


def sweep_seconds(model, w, repeat=9):
    """One bare sweep of all max oracles (potentials and Viterbi) at weights w."""
    ws = model.workspace(w)
    labels = np.zeros(model.max_size, dtype=np.int32)
    model.sweep(ws, labels)
    return median_seconds(lambda: model.sweep(ws, labels), repeat)


def pass_against_sweep(X, y, alpha, n_passes=30, random_state=0):
    """Median seconds of a plain BCFW pass and of a bare sweep, taken in turns."""
    from sksstruct.solvers import BCFW

    model = bind(X, y)
    weights = Weights(model.n_weights)
    kernel = BCFW.as_published(step="fw", sampling="permutation")._kernel(
        model, weights, alpha
    )
    rng = np.random.RandomState(random_state)
    passes, sweeps = [], []
    for _ in range(n_passes):
        order = rng.permutation(model.n_examples).astype(np.intp)
        with Clock() as clock:
            kernel.visit_in_order(order)
        passes.append(clock.seconds)
        sweeps.append(sweep_seconds(model, weights.w, repeat=1))
    return float(np.median(passes)), float(np.median(sweeps))
