"""Training from features on disk that are larger than memory.

    python benchmarks/bench_out_of_core.py [--gigabytes 2] [--memory 2]
        [--solver auto lbfgs]

A corpus is generated in parts, and written to one folder; see `bench_dask.py` for what
it is. Each solver then trains in a process of its own, from mapped files: "auto" is the
hinge by BCFW, "lbfgs" the likelihood by L-BFGS, both by `Partitioned`. RssAnon is what
cannot be given back, RssFile what was read, or written to files, and the system takes
back when it needs it.

``--memory`` limits the process, with what it has read, by a control group: this needs
Linux with cgroups of version 1 and root. Without it only the use of memory is shown.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

from bench_dask import make_corpus
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.metrics import flat_f1_score
from sksstruct.solvers import LBFGS, Partitioned
from sksstruct.utils.packed import PackedSequences

# Bytes of a position: attributes in double precision, and their columns.
PART, ATTRIBUTES = 200_000, 16
POSITION = 12 * ATTRIBUTES
CGROUP = Path("/sys/fs/cgroup/memory")


def generate(folder, gigabytes, n_attributes, n_labels):
    """Write training and test data; return the number of training positions."""
    n_parts = max(1, round(gigabytes * 1e9 / POSITION / PART))
    for name, numbers in (("train", range(n_parts)), ("test", [n_parts])):
        PackedSequences.save_parts(
            folder / name,
            (
                make_corpus(number, PART, n_attributes, n_labels, ATTRIBUTES, float)
                for number in numbers
            ),
        )
    return n_parts * PART


class Watch(threading.Thread):
    """Peaks of the memory of this process, in MB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peaks = {"RssAnon": 0, "RssFile": 0}

    def run(self):
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in self.peaks:
                    size = int(value.split()[0]) // 1024
                    self.peaks[name] = max(self.peaks[name], size)
            time.sleep(0.05)


def train(folder, options):
    """Train, and print figures."""
    watch = Watch()
    watch.start()
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = PackedSequences.open(folder / "train", labels=True)
    local = LBFGS() if options.train == "lbfgs" else None
    # a block and what it needs should fit in memory several times
    n_blocks = max(4, round(20 * options.gigabytes / options.memory))
    solver = Partitioned(
        solver=local,
        blocks=n_blocks,
        tol=options.tol,
        max_iter=options.max_iter,
        rounds=1,
    )
    loss = {"loss": "log", "alpha": 1e-3} if local else {}
    tagger = ChainCRF(solver=solver, random_state=0, n_jobs=options.jobs, **loss)
    started, cpu = time.perf_counter(), time.process_time()
    tagger.fit(X, y)
    seconds = time.perf_counter() - started
    cpu = time.process_time() - cpu
    peaks = dict(watch.peaks)
    X_test, y_test = PackedSequences.open(folder / "test", labels=True)
    f1 = flat_f1_score(y_test, tagger.predict(X_test), average="micro")
    size = sum(file.stat().st_size for file in (folder / "train").iterdir())
    figures = {
        "solver": options.train,
        "positions": int(X.offsets[-1]),
        "GB of features": round(size / 1e9, 2),
        "GB of memory allowed": options.memory if options.limited else None,
        "blocks": n_blocks,
        "MB of weights": round(tagger.coef_.base.nbytes / 2**20, 1),
        "peak MB of RssAnon": peaks["RssAnon"],
        "peak MB of RssFile": peaks["RssFile"],
        "seconds": round(seconds, 1),
        "CPU seconds": round(cpu, 1),
        "passes": tagger.n_iter_,
        "objective": round(tagger.objective_, 5),
        "gap": float(f"{tagger.dual_gap_:.3g}"),
        "F1": round(f1, 4),
    }
    print(json.dumps(figures, indent=1), flush=True)


def run(arguments, memory):
    """Run this file again in a process that has so many GB; return whether it could."""
    group = CGROUP / f"sksstruct-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(int(memory * 1e9)))
        limited = True
    except OSError:
        limited = False

    def enter():
        if limited:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, __file__, *arguments, *["--limited"] * limited]
    try:
        subprocess.run(command, check=True, preexec_fn=enter)
    finally:
        if limited:
            group.rmdir()


def main():
    """Generate, and train with each solver."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=2.0, help="of features")
    parser.add_argument("--memory", type=float, default=2.0, help="GB of the process")
    parser.add_argument("--solver", nargs="*", default=["auto", "lbfgs"])
    parser.add_argument("--attributes", type=int, default=50_000)
    parser.add_argument("--labels", type=int, default=8)
    parser.add_argument("--tol", type=float, default=0.02)
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--folder", type=Path, help="where the corpus is, or is put")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--limited", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.folder, options)
        return
    folder = options.folder or Path(tempfile.mkdtemp(prefix="sksstruct-corpus-"))
    try:
        if not (folder / "train").exists():
            started = time.perf_counter()
            generate(folder, options.gigabytes, options.attributes, options.labels)
            print(f"generated in {time.perf_counter() - started:.0f} s", flush=True)
        for solver in options.solver:
            names = "gigabytes", "memory", "tol", "max_iter", "jobs"
            given = [
                f"--{name.replace('_', '-')}={getattr(options, name)}"
                for name in names
                if getattr(options, name) is not None
            ]
            run([*given, f"--folder={folder}", f"--train={solver}"], options.memory)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
