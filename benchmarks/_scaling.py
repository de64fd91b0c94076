"""What `bench_scaling.py` measures: visits of blocks, and rounds of a cluster."""

import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from _blocks import Meter
from bench_dask import LENGTH, make_shard
from distributed import Client, LocalCluster
from scipy import sparse
from scipy.optimize import nnls

from sksstruct import ChainCRF
from sksstruct.dask import DaskExecutor
from sksstruct.dask._executor import Builder
from sksstruct.solvers import Partitioned
from sksstruct.solvers.partitioned.changes import SparseChange, TreeSum
from sksstruct.utils.packed import PackedLabels, PackedSequences

# Blocks of the fits that tell what a visit costs, and what a call of a block costs.
_BLOCKS = 4, 32
_PASSES = 4
_REPEAT = 5


# ---- the corpus ----


@dataclass(frozen=True)
class Corpus:
    """A generated corpus in shards.

    Parameters
    ----------
    folder : str
        Where the shards are.
    tokens, attributes, labels, shards : int
        Its size.
    """

    folder: str
    tokens: int
    attributes: int
    labels: int
    shards: int

    def make(self):
        """Write the shards."""
        for k in range(self.shards):
            size = self.tokens // self.shards, self.attributes, self.labels
            make_shard(f"{self.folder}/{k}", k, *size)

    def load(self, number):
        """Open a shard."""
        return PackedSequences.open(f"{self.folder}/{number}", labels=True)

    def whole(self):
        """All shards as one."""
        parts = [self.load(k) for k in range(self.shards)]
        X = sparse.vstack([x.values for x, _ in parts], format="csr")
        codes = np.concatenate([y.codes for _, y in parts])
        offsets = np.arange(0, len(codes) + 1, LENGTH)
        labels = PackedLabels(codes, offsets, parts[0][1].classes)
        return PackedSequences(X, offsets), labels


# ---- blocks ----


def metered(corpus, blocks, tol, passes):
    """Train in this process; return the meter, the estimator and CPU seconds."""
    X, y = corpus.whole()
    meter = Meter()
    # as on a cluster, where states are kept
    meter.loses_blocks = True
    solver = Partitioned(
        blocks=blocks, tol=tol, max_iter=passes, executor=meter,
        keep_every=min(5, passes),
    )  # fmt: skip
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ChainCRF(solver=solver, random_state=0).fit(X, y)
    return meter, fitted, time.process_time() - started


def _advance_seconds(corpus):
    """Seconds of the rounds of blocks, in a process of its own."""
    meter, _, _ = metered(corpus, _BLOCKS[0], 1e-9, 2)
    return meter.seconds["advance"]


def crowding(corpus):
    """How many times as long blocks take where two processes are at work."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        alone = pool.submit(_advance_seconds, corpus).result()
        both = list(pool.map(_advance_seconds, [corpus] * 2))
    return max(1.0, float(np.mean(both)) / alone)


@dataclass
class Work:
    """What training costs where the blocks are, and where the client is.

    Parameters
    ----------
    weights : int
        Number of weights that all this was measured with.
    token, known, check : float
        CPU seconds of a token: in a visit, in one of a known labeling, in a gap.
    call, copy : float
        CPU seconds of a round of a block besides; and of a round of a worker, for each
        byte of the weights that the round before has changed.
    driver : float
        CPU seconds of a round on the client, but for the addition of changes.
    byte : float
        CPU seconds of adding a byte of changes.
    change, power : float
        A round of n tokens changes ``change n^power`` bytes of weights.
    known_change, known_power : float
        The same of known labelings.
    state : float
        Bytes of the state of a token.
    crowding : float
        How many times as long blocks take where all cores are at work.
    """

    weights: int
    token: float
    known: float
    check: float
    call: float
    copy: float
    driver: float
    byte: float
    change: float
    power: float
    known_change: float
    known_power: float
    state: float
    crowding: float

    def bytes_of(self, tokens, known=False):
        """Bytes of the change of a round of so many tokens."""
        whole = 8.0 * self.weights
        some = self.change * tokens**self.power
        if known:
            some = self.known_change * tokens**self.known_power
        return some if some < 0.5 * whole else whole

    @classmethod
    def measure(cls, corpus):
        """Train a few passes with few and with many blocks."""
        rows, bytes_, sizes = [], [], []
        for blocks in _BLOCKS:
            meter, fitted, seconds = metered(corpus, blocks, 1e-9, _PASSES)
            for each in meter.advances:
                tokens = each.visits * LENGTH
                kinds = (0.0, tokens) if each.known else (tokens, 0.0)
                rows.append((*kinds, 1.0, each.before, each.seconds))
                bytes_.append(each.nbytes)
                sizes.append(tokens)
        rows = np.array(rows)
        # all calls count the same, whatever their size
        scale = 1.0 / np.maximum(rows[:, -1:], 1e-6)
        solution, _ = nnls(rows[:, :-1] * scale, rows[:, -1] * scale[:, 0])
        token, known, call, copy = map(float, solution)
        n_weights = fitted.coef_.base.size
        of_known = rows[:, 1] > 0.0
        sizes, bytes_ = np.array(sizes), np.array(bytes_)
        change, known_change = (
            _power_law(sizes[some], bytes_[some], 4.0 * n_weights)
            for some in (~of_known, of_known)
        )
        n_checks = meter.calls["check"] + meter.calls["value"]
        checks = meter.seconds["check"] + meter.seconds["value"]
        driver = seconds - sum(meter.seconds.values()) - meter.adding
        return cls(
            weights=n_weights,
            token=token,
            known=known,
            check=checks / (n_checks * corpus.tokens),
            call=call,
            copy=copy,
            driver=max(driver, 0.0) / meter.calls["advance"],
            byte=meter.adding / meter.added,
            change=change[0],
            power=change[1],
            known_change=known_change[0],
            known_power=known_change[1],
            state=meter.state_bytes / corpus.tokens,
            crowding=crowding(corpus),
        )


def _power_law(sizes, values, most):
    """a and b of ``value = a size^b``, from those that are neither cut off nor zero."""
    some = (values < most) & (values > 0)
    power, log_factor = np.polyfit(np.log(sizes[some]), np.log(values[some]), 1)
    return float(np.exp(log_factor)), float(power)


# ---- rounds of a cluster ----


@dataclass
class Traffic:
    """What a round costs on a cluster, without a network.

    Parameters
    ----------
    round, task : float
        Seconds of a round, and of each task in it.
    down, copy : float
        Seconds of sending a byte to the first worker, and to each further one.
    up : float
        Seconds of a byte that comes back, added on the client.
    """

    round: float
    task: float
    down: float
    copy: float
    up: float

    @classmethod
    def measure(cls):
        """Rounds of blocks that do nothing, by the executor of the package."""
        rows = []
        for workers in (1, 2, 4):
            with (
                LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    dashboard_address=":0",
                ) as cluster,
                Client(cluster) as client,
            ):
                executor = DaskExecutor(client)
                executor.place([Builder(_idle)] * workers)
                for down in (1_000, 8_000_000, 32_000_000):
                    for up in (8_000, 800_000, 8_000_000):
                        seconds = _round_seconds(executor, down, up)
                        sent = down, down * (workers - 1), up * workers
                        rows.append((1.0, workers, *sent, seconds))
                executor.close()
        rows = np.array(rows)
        scale = 1.0 / rows[:, 5]
        solution, _ = nnls(rows[:, :5] * scale[:, None], np.ones(len(rows)))
        return cls(*map(float, solution))


class Idle:
    """A block that does nothing, and sends something."""

    def advance(self, v, nbytes):
        """A change of so many bytes."""
        # number, mask and two entries of a line
        lines = np.arange(nbytes // 21, dtype=np.int32)
        masks = np.full(len(lines), 3, dtype=np.uint8)
        return None, SparseChange(lines, masks, np.ones(2 * len(lines)), 2**31)


def _idle(shared):
    return Idle()


def _round_seconds(executor, down, up):
    """Median seconds of a round."""
    v, seconds = np.zeros(down // 8), []
    for _ in range(_REPEAT):
        v = v.copy()
        started = time.perf_counter()
        total = TreeSum(executor.n_blocks)
        executor.call("advance", v, up, total=total)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))
