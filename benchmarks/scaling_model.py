"""How long training takes on more machines than there are here, and what it costs.

    python benchmarks/scaling_model.py [--check]

Training in blocks makes the same rounds wherever the blocks are, so that seconds are
those of a round, times the rounds. What a visit, a task and a byte cost is measured on
this machine; passes and rounds come from `partitioned.json`, which
`bench_partitioned.py --write` writes; the network is what the arguments say. --check
predicts the seconds of one and of two workers on this machine, and measures them.
"""

import argparse
import json
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from _common import live_table
from _scaling import LENGTH, Corpus, Traffic, Work, metered
from distributed import Client, LocalCluster

from sksstruct.dask import DaskChainCRF, Shards
from sksstruct.solvers import Partitioned

WORKERS = [1, 4, 16, 64, 256, 1024]
TOKENS = [10**7, 10**8, 10**9, 10**10]
# Passes between two times that the states of blocks are kept.
KEEP_EVERY = 5


def arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare with a run")
    parser.add_argument("--tokens", type=int, default=500_000, help="measured on")
    parser.add_argument("--attributes", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=30)
    parser.add_argument("--weights", type=float, help="default: those measured with")
    parser.add_argument("--tol", type=float, default=0.01, help="of --check")
    parser.add_argument("--problem", default="conll2000", help="whose passes are taken")
    parser.add_argument("--gbit", type=float, nargs="*", default=[10.0, 1.0])
    parser.add_argument("--latency", type=float, default=0.2e-3, help="seconds")
    parser.add_argument("--price", type=float, default=0.05, help="of a core-hour")
    parser.add_argument("--fan-out", type=int, default=50, help="transfers at a time")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of a pass")
    parser.add_argument("--no-known", action="store_true", help="no known labelings")
    return parser.parse_args()


# ---- the model ----


@dataclass
class Count:
    """What a run does, whatever it runs on: passes, rounds, and gaps."""

    passes: float
    rounds: float
    known: float
    checks: float


@dataclass
class Network:
    """A network between the client and the workers.

    Parameters
    ----------
    gbit : float
        Bandwidth of each machine, in Gbit/s; inf for one machine.
    latency : float
        Seconds until an answer comes.
    fan_out : int
        How many machines a machine sends to at the same time.
    """

    gbit: float
    latency: float
    fan_out: int

    @property
    def byte(self):
        """Seconds of a byte."""
        return 8e-9 / self.gbit

    def copies(self, workers):
        """How many times as long as one copy the last of some workers waits."""
        have, copies = 1, 0
        while have < workers:
            sent = min(self.fan_out, -(-(workers - have) // have))
            copies += sent
            have += have * sent
        return copies


@dataclass
class Model:
    """Seconds of a run.

    Parameters
    ----------
    work : Work
        What blocks cost.
    traffic : Traffic
        What the cluster costs.
    network : Network
        What lies between.
    """

    work: Work
    traffic: Traffic
    network: Network

    def parts(self, count, tokens, blocks, workers, rounds=4):
        """Seconds of all rounds and gaps, by what takes them.

        Parameters
        ----------
        count : Count
            What the run does.
        tokens, blocks, workers : int
            Sizes.
        rounds : int
            Rounds of a pass.

        Returns
        -------
        parts : dict of str to float
        """
        work, traffic, network = self.work, self.traffic, self.network
        per_block = tokens / blocks
        mine = -(-blocks // workers)
        crowding = work.crowding if workers > 1 else 1.0
        visits = per_block / rounds
        calls = count.rounds + count.checks
        blocks_seconds = (
            mine
            * crowding
            * (
                (count.rounds - count.known) * visits * work.token
                + count.known * visits * work.known
                + count.checks * per_block * work.check
                + count.rounds
                * (work.call + work.bytes_of(visits * blocks) * work.copy)
            )
        )
        # a worker adds the changes of its blocks
        change = work.bytes_of(visits)
        adding = count.rounds * ((mine - 1) * change * work.byte + copies)
        weights = 8.0 * work.weights
        # the client sends to the first worker by way of the scheduler
        down = 2 * max(traffic.down / 2, network.byte)
        down += network.copies(workers) * max(traffic.copy, network.byte)
        together = work.bytes_of(visits * mine)
        up = min(workers, blocks) * max(traffic.up, 2 * network.byte)
        state = tokens * work.state * max(traffic.up, network.byte)
        latency = traffic.round + workers * traffic.task
        latency += (2 + workers) * network.latency
        return {
            "blocks": blocks_seconds + adding,
            "down": calls * weights * down,
            "up": count.rounds * together * up,
            "tasks": calls * latency,
            "client": count.rounds * work.driver,
            "states": count.passes // KEEP_EVERY * state,
        }

    def received(self, count, corpus, workers):
        """Bytes that come back from the workers."""
        mine = -(-corpus.shards // workers)
        tokens = corpus.tokens / corpus.shards / 4 * mine
        return count.rounds * workers * self.work.bytes_of(tokens)


# ---- passes, as measured ----


class Counts:
    """Passes, rounds and gaps as functions of the number of blocks, and of sequences.

    Logarithms of the passes are linear in those of the blocks and of the sequences,
    from four blocks on: ``passes = a B^b n^-c``. Rounds of known labelings and gaps in
    a pass are those of the run with the nearest number of blocks. Beyond what was
    measured, all of this is extrapolated; passes are never fewer than the fewest seen.

    Parameters
    ----------
    rows : list of dict
        What `bench_partitioned.py` writes.
    problem : str
        Whose rows are read.
    """

    def __init__(self, rows, problem):
        rows = [row for row in rows if row["problem"] == problem]
        rows = [row for row in rows if row["rounds a pass"] == 4]
        # those that were stopped tell too little
        rows = [row for row in rows if not row["passes"].startswith(">")]
        self.full = max(row["sequences"] for row in rows)
        whole = [row for row in rows if row["sequences"] == self.full]
        self.whole = sorted(whole, key=lambda row: row["blocks"])
        self.least = min(int(row["passes"]) for row in self.whole)
        some = [row for row in rows if row["blocks"] >= 4]
        left = [
            (1.0, np.log(row["blocks"]), np.log(row["sequences"] / self.full))
            for row in some
        ]
        right = [np.log(int(row["passes"])) for row in some]
        self.line = np.linalg.lstsq(np.array(left), np.array(right), rcond=None)[0]
        # more sequences in a block do not make it harder
        self.line[2] = min(self.line[2], 0.0)

    def passes(self, blocks, share):
        """Passes with so many blocks, on a multiple of the sequences measured."""
        point = 1.0, np.log(blocks), np.log(share)
        return (
            max(self.least, float(np.exp(self.line @ point)))
            if blocks > 1
            else (self.least)
        )

    def count(self, blocks, share, rounds=4, known=True):
        """What a run does."""
        near = min(self.whole, key=lambda row: abs(np.log(row["blocks"] / blocks)))
        passes, of_near = self.passes(blocks, share), int(near["passes"])
        first = passes * rounds
        more = near["known"] / of_near * rounds / 4 * passes if known else 0.0
        checks = near["checks"] / of_near * passes
        return Count(passes, first + more, more, checks)


# ---- tables ----


def resized(work, weights):
    """What blocks cost with another number of weights."""
    ratio = weights / work.weights
    return replace(work, weights=weights, driver=work.driver * ratio)


def alone(work, count, tokens):
    """Seconds of one process without blocks: nothing is sent."""
    visits = (count.rounds - count.known) * work.token + count.known * work.known
    return tokens * (visits / 4 + count.checks * work.check)


def predictions(model, counts, options, tokens):
    """Rows of the table: one for each number of workers."""
    share = tokens / options.length / counts.full
    one = alone(model.work, counts.count(1, share), tokens)
    for workers in WORKERS:
        if workers == 1:
            parts = {"blocks": one}
        else:
            count = counts.count(workers, share, options.rounds, not options.no_known)
            parts = model.parts(count, tokens, workers, workers, options.rounds)
        seconds = sum(parts.values())
        yield {
            "tokens": f"1e{round(np.log10(tokens))}",
            "Gbit/s": model.network.gbit,
            "workers": workers,
            "passes": round(counts.passes(workers, share)),
            "seconds": round(seconds),
            "speed-up": f"{one / seconds:.1f}",
            "cost": f"{seconds * workers / 3600 * options.price:.2f}",
            **{
                f"{name} %": round(100 * parts.get(name, 0.0) / seconds)
                for name in ("blocks", "down", "up", "tasks", "client", "states")
            },
        }


def summary(rows):
    """Which number of workers is fastest, and how far more of them pay."""
    best = min(rows, key=lambda row: row["seconds"])
    far = rows[0]
    for row in rows[1:]:
        # four times the workers must at least halve the time of some
        most = far["seconds"] / (2 if far["workers"] > 1 else 1)
        if row["seconds"] > most:
            break
        far = row
    return {
        "tokens": best["tokens"],
        "Gbit/s": best["Gbit/s"],
        "fastest": best["workers"],
        "its seconds": best["seconds"],
        "pays up to": far["workers"],
        "seconds": far["seconds"],
        "cost": far["cost"],
    }


def tables(options, corpus):
    """Measure, and print the tables."""
    work, traffic = Work.measure(corpus), Traffic.measure()
    show(work, traffic)
    if options.weights:
        work = resized(work, options.weights)
    path = Path(__file__).parent / "partitioned.json"
    counts = Counts(json.loads(path.read_text()), options.problem)
    ends = []
    for gbit in options.gbit:
        network = Network(gbit, options.latency, options.fan_out)
        model = Model(work, traffic, network)
        for tokens in TOKENS:
            rows = predictions(model, counts, options, tokens)
            ends.append(summary(live_table(f"{tokens:,} tokens", rows)))
    live_table("How many workers", ends)


def show(work, traffic):
    """Print what was measured."""
    for measured in (work, traffic):
        print(f"\n{type(measured).__name__}")
        for name, value in vars(measured).items():
            print(f"  {name:9} {value:.4g}")


# ---- the check ----


def check(options, corpus):
    """Predict what one and two workers take here, and let them do it."""
    work, traffic = Work.measure(corpus), Traffic.measure()
    show(work, traffic)
    meter, fitted, _ = metered(corpus, corpus.shards, options.tol, 1000)
    known = sum(row.known for row in meter.advances) // meter.n_blocks
    count = Count(
        fitted.n_iter_, meter.calls["advance"], known, meter.calls["check"] +
        meter.calls["value"],
    )  # fmt: skip
    model = Model(work, traffic, Network(np.inf, 0.0, options.fan_out))
    live_table(
        f"seconds of {count.rounds} rounds on this machine",
        (compared(model, count, options, corpus, workers) for workers in (1, 2)),
    )


def compared(model, count, options, corpus, workers):
    """Predicted and measured seconds of a run."""
    parts = model.parts(count, corpus.tokens, corpus.shards, workers)
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        solver = Partitioned(tol=options.tol)
        tagger = DaskChainCRF(solver=solver, random_state=0, client=client)
        started = time.perf_counter()
        tagger.fit(Shards(corpus.load, corpus.shards))
        whole = time.perf_counter() - started
    # without the time in which parts are read and blocks are made
    seconds = tagger.history_["seconds"][-1]
    if tagger.n_iter_ != count.passes:
        raise RuntimeError(
            f"{tagger.n_iter_} passes on the cluster, {count.passes} without it"
        )
    predicted = sum(parts.values())
    return {
        "workers": workers,
        "predicted": f"{predicted:.1f}",
        "measured": f"{seconds:.1f}",
        "ratio": f"{predicted / seconds:.2f}",
        "MB up": round(model.received(count, corpus, workers) / 1e6),
        "truly": round(tagger.history_["bytes_up"][-1] / 1e6),
        "whole fit": f"{whole:.1f}",
        **{name: f"{value:.1f}" for name, value in parts.items()},
    }


def main():
    """Generate a corpus, measure, print."""
    options = arguments()
    options.length = LENGTH
    with tempfile.TemporaryDirectory(prefix="sksstruct-shards-") as folder:
        corpus = Corpus(folder, options.tokens, options.attributes, options.labels, 8)
        corpus.make()
        (check if options.check else tables)(options, corpus)


if __name__ == "__main__":
    main()
