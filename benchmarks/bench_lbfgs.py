"""L-BFGS with a million attributes: memory and time for generated data."""

import subprocess
import sys
import tempfile
from pathlib import Path

from _common import arguments, table

import numpy as np  # isort: skip
from scipy import sparse

args = arguments(__doc__, quick="a tenth of the attributes and positions")
N_ITERATIONS, N_LABELS, N_ACTIVE = 15, 20, 20
N_FEATURES = 10**5 if args.quick else 10**6
N_SEQUENCES = 300 if args.quick else 3000


def generate(rng):
    """Features by Zipf's law, half of them told by the label, and rare ones."""
    lengths = rng.integers(10, 40, N_SEQUENCES)
    offsets = np.r_[0, np.cumsum(lengths)]
    n = offsets[-1]
    labels = rng.integers(N_LABELS, size=n)
    columns = (N_FEATURES ** rng.random((n, N_ACTIVE))).astype(np.int64) - 1
    told = rng.random(columns.shape) < 0.5
    by_label = (columns * N_LABELS + labels[:, None]) % N_FEATURES
    columns = np.where(told, by_label, columns)
    columns[:, -1] = rng.permutation(np.resize(np.arange(N_FEATURES), n))
    rows = np.repeat(np.arange(n), N_ACTIVE)
    X = sparse.csr_array(
        (np.ones(columns.size), (rows, columns.ravel())), shape=(n, N_FEATURES)
    )
    return X, offsets, labels


# A process that has the features and nothing else, before and after the fit.
CODE = """
import sys, time, warnings
import numpy as np
from scipy.sparse import load_npz
from sksstruct import ChainCRF
from sksstruct.solvers import LBFGS
from sksstruct.utils.packed import PackedSequences
warnings.simplefilter("ignore")
folder, n_iterations, all_states = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "all"
z = np.load(f"{folder}/labels.npz")
X = PackedSequences(load_npz(f"{folder}/features.npz"), z["offsets"])
y = np.split(z["labels"], z["offsets"][1:-1])
def peak():  # of this program; getrusage would count the one that started it
    line, = (x for x in open("/proc/self/status") if x.startswith("VmHWM"))
    return int(line.split()[1]) // 1024
before, start = peak(), time.process_time()
solver = LBFGS(n_iterations)
ChainCRF(loss="log", solver=solver, all_possible_states=all_states).fit(X, y)
print(before, peak(), time.process_time() - start)
"""

X, offsets, labels = generate(np.random.default_rng(0))
rows = []
with tempfile.TemporaryDirectory() as folder:
    sparse.save_npz(Path(folder) / "features.npz", X)
    np.savez(Path(folder) / "labels.npz", offsets=offsets, labels=labels)
    for states in ("all", "seen"):
        command = [sys.executable, "-c", CODE, folder, str(N_ITERATIONS), states]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        before, after, seconds = map(float, run.stdout.split())
        growth = after - before
        rows.append([states, f"{before:.0f}", f"{growth:.0f}", f"{seconds:.1f}"])
table(
    f"{N_ITERATIONS} iterations of L-BFGS: {X.shape[0]} positions, {N_FEATURES} "
    f"attributes, {N_LABELS} labels",
    ["weights", "MB before the fit", "growth, MB", "CPU seconds"],
    rows,
)
