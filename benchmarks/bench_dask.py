"""Training on a cluster on this machine.

    python benchmarks/bench_dask.py [ocr|conll2000] [--data-home FOLDER] [--shards 4]

One and two workers of one thread, and the same blocks in this process, to a gap of
0.01. Processes are warm: a short fit comes first. CPU seconds depend little on what
else the machine does. "path" is what idle cores would take: CPU seconds of the client,
which has the scheduler too, and of the worker that has most.

    python benchmarks/bench_dask.py corpus [--tokens 500000] [--attributes 100000]
        [--labels 30] [--shards 8] [--workers 2] [--memory 1.5] [--tol 0.05]

A generated corpus from shards on disk.

Words come from a Zipf law, and each has three attributes besides itself that it shares
with others. Labels follow a Markov chain, and a word is drawn from those of its label.
Memory is the peak of what is allocated by each worker, without the pages of the mapped
files, which the system takes back when it needs them. Needs Linux.
"""

import argparse
import json
import shutil
import tempfile
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.dask import DaskChainCRF, Shards
from sksstruct.datasets import fetch_ocr_letters
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import flat_f1_score
from sksstruct.solvers import Partitioned
from sksstruct.utils.packed import PackedLabels, PackedSequences

LENGTH = 20


def make_corpus(number, n_tokens, n_attributes, n_labels, n_own=4, dtype=np.float32):
    """Make features and labels of one shard.

    A token has `n_own` attributes: its word, those of the word, that of the one before.
    """
    fixed = np.random.default_rng(0)
    steps = fixed.dirichlet(np.full(n_labels, 0.2), n_labels).cumsum(axis=1)
    rng = np.random.default_rng([1, number])
    n = n_tokens // LENGTH
    labels = np.empty((n, LENGTH), dtype=np.int32)
    labels[:, 0] = rng.integers(0, n_labels, n)
    for t in range(1, LENGTH):
        draw = rng.random((n, 1))
        labels[:, t] = (draw > steps[labels[:, t - 1]]).sum(axis=1)
    labels = np.minimum(labels, n_labels - 1)
    # a half of the attributes are words; labels own every n_labels-th of them
    n_words = n_attributes // 2
    ranks = rng.zipf(1.3, labels.shape) % (n_words // n_labels)
    words = ranks * n_labels + labels
    noise = rng.random(labels.shape) < 0.15
    words[noise] = rng.integers(0, n_words, noise.sum())
    factors = [(1, 7), (31, 3), *((2 * k + 41, 5 * k) for k in range(n_own - 4))]
    others = [n_words + (words * p + q) % n_words for p, q in factors]
    before = np.roll(words, 1, axis=1)
    columns = np.stack([words, *others, n_words + (before * 17 + 5) % n_words], axis=-1)
    columns = columns.reshape(-1, n_own).astype(np.int32)
    columns.sort(axis=1)
    rows = sparse.csr_array(
        (
            np.ones(columns.size, dtype=dtype),
            columns.ravel(),
            np.arange(0, columns.size + 1, n_own),
        ),
        shape=(len(columns), n_attributes),
    )
    rows.sum_duplicates()
    X = PackedSequences(rows, np.arange(0, labels.size + 1, LENGTH))
    names = [f"L{k:02}" for k in range(n_labels)]
    return X, PackedLabels(labels.ravel(), X.offsets, names)


def make_shard(path, number, n_tokens, n_attributes, n_labels):
    """Write one shard."""
    X, y = make_corpus(number, n_tokens, n_attributes, n_labels)
    X.save(path, y)


def load(folder, number):
    """Open one shard."""
    return PackedSequences.open(Path(folder) / str(number), labels=True)


def allocated():
    """Memory of this process in MB, without mapped files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise OSError("no RssAnon in /proc/self/status")


class Watch(threading.Thread):
    """Looks at the memory of every worker now and then."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.peaks, self.done = client, {}, threading.Event()

    def run(self):
        while not self.done.wait(0.2):
            try:
                found = self.client.run(allocated)
            except OSError:
                # a worker is gone: it needed more memory than it may have
                continue
            for name, value in found.items():
                self.peaks[name] = max(self.peaks.get(name, 0.0), value)


def problem_data(name, data_home):
    """Sequences, labels and parameters."""
    if name == "ocr":
        data = fetch_ocr_letters("rest", data_home=data_home)
        # in random order: neighbors are the same words, in different hands
        order = np.random.RandomState(0).permutation(len(data.X))
        X, y = [data.X[i] for i in order], [data.y[i] for i in order]
        return X, y, {"alpha": 0.001, "loss_normalization": "sequence"}
    from _chunking import chunking_data

    features, y = chunking_data("train", data_home)
    return SequenceVectorizer().fit_transform(features), y, {}


def ratios(name, options):
    """Print seconds of one and two workers, and of this process, row by row."""
    X, y, parameters = problem_data(name, options.data_home)
    n, n_blocks = len(y), options.shards
    cuts = [n * b // n_blocks for b in range(n_blocks + 1)]
    parts = [(X[a:b], y[a:b]) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    parameters |= {"random_state": 0}
    print(f"{'':24} passes    gap  wall s  client s  worker s  path s", flush=True)
    for n_jobs in (1, 2):
        solver = Partitioned(blocks=n_blocks, tol=0.01, max_iter=options.max_iter)
        tagger = ChainCRF(solver=solver, n_jobs=n_jobs, **parameters)
        clock, started = time.process_time(), time.perf_counter()
        tagger.fit(X, y)
        wall = time.perf_counter() - started
        line(f"{name}, {n_jobs} threads", tagger, wall, time.process_time() - clock)
    for n_workers in (1, 2):
        with (
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            # where each part is stays the same, and no time is taken to send it
            workers = sorted(client.nthreads())
            futures = [
                client.scatter([part], workers=[workers[k * n_workers // n_blocks]])[0]
                for k, part in enumerate(parts)
            ]
            for max_iter in (1, options.max_iter):
                solver = Partitioned(tol=0.01, max_iter=max_iter)
                tagger = DaskChainCRF(solver=solver, client=client, **parameters)
                before = client.run(time.process_time)
                clock, started = time.process_time(), time.perf_counter()
                tagger.fit(futures)
                wall = time.perf_counter() - started
                clock = time.process_time() - clock
                after = client.run(time.process_time)
            most = max(after[each] - before[each] for each in after)
            line(f"{name}, {n_workers} workers", tagger, wall, clock, most)


def line(name, tagger, wall, client, worker=0.0):
    """Print a row of the table."""
    print(
        f"{name:24} {tagger.n_iter_:6} {tagger.dual_gap_:6.4f} {wall:7.1f} "
        f"{client:9.1f} {worker:9.1f} {client + worker:7.1f}",
        flush=True,
    )


def main():
    """Generate, train, report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    problems = "ocr", "conll2000", "corpus"
    parser.add_argument("problem", choices=problems, nargs="?", default="ocr")
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--tokens", type=int, default=500_000)
    parser.add_argument("--attributes", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=30)
    parser.add_argument("--shards", type=int, default=None)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=float, default=1.5, help="GB of a worker")
    parser.add_argument("--tol", type=float, default=0.05)
    parser.add_argument("--max-iter", type=int, default=100)
    options = parser.parse_args()
    options.shards = options.shards or (8 if options.problem == "corpus" else 4)
    if options.problem != "corpus":
        warnings.simplefilter("ignore", ConvergenceWarning)
        ratios(options.problem, options)
        return
    folder = tempfile.mkdtemp(prefix="sksstruct-shards-")
    size = options.tokens // options.shards, options.attributes, options.labels
    # Dask counts the pages of mapped files too, which the system takes back: what is
    # shown is what is allocated
    limits = dict.fromkeys(("target", "spill", "pause", "terminate"), False)
    dask.config.set({f"distributed.worker.memory.{k}": v for k, v in limits.items()})
    try:
        with (
            LocalCluster(
                n_workers=options.workers,
                threads_per_worker=1,
                memory_limit=f"{options.memory}GB",
                dashboard_address=":0",
            ) as cluster,
            Client(cluster) as client,
        ):
            names = range(options.shards + 1)
            jobs = [dask.delayed(make_shard)(f"{folder}/{k}", k, *size) for k in names]
            dask.compute(*jobs)
            report(train(client, folder, options))
    finally:
        shutil.rmtree(folder)


def train(client, folder, options):
    """Figures of one training run; the last shard is held out."""
    watch = Watch(client)
    watch.start()
    solver = Partitioned(tol=options.tol, max_iter=options.max_iter)
    tagger = DaskChainCRF(solver=solver, random_state=0, client=client)
    started = time.perf_counter()
    tagger.fit(Shards(partial(load, folder), options.shards))
    seconds = time.perf_counter() - started
    watch.done.set()
    watch.join()
    X, y = load(folder, options.shards)
    trace = tagger.history_
    passes = tagger.n_iter_
    return {
        "tokens": options.tokens,
        "workers": options.workers,
        "shards": options.shards,
        "F1": round(flat_f1_score(y, tagger.to_local().predict(X), average="micro"), 4),
        "gap": round(tagger.dual_gap_, 5),
        "passes": passes,
        "seconds": round(seconds, 1),
        "MB of workers": [round(peak) for peak in watch.peaks.values()],
        "MB of weights": round(tagger.coef_.base.nbytes / 2**20),
        "MB down a pass": round(trace["bytes_down"][-1] / passes / 2**20, 2),
        "MB up a pass": round(trace["bytes_up"][-1] / passes / 2**20, 2),
    }


def report(figures):
    """Print figures, one a line."""
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
