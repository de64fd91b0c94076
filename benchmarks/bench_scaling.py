"""How long training takes on more machines than there are here, and what it costs.

    python benchmarks/bench_scaling.py [--check]

Training in blocks makes the same rounds wherever the blocks are, so that seconds are
those of a round, times the rounds. What a visit, a task and a byte cost is measured on
this machine; passes and rounds come from `bench_partitioned.json`, which
`bench_partitioned.py --write` writes; the network is what the arguments say. --check
predicts the seconds of one and of two workers on this machine, and measures them.
"""

import argparse
import csv
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
# Tokens and workers of the table of what to do where the network takes most.
REMEDY = 10**9, 256
# What is longer where features are more, or oracles slower.
VISITS = "token", "known", "check"
# Passes between two times that the states of blocks are kept.
KEEP_EVERY = 5
# To so many workers the client sends weights itself.
FEW = 16


def arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare with a run")
    parser.add_argument("--tokens", type=int, default=200_000, help="measured on")
    parser.add_argument("--attributes", type=int, default=50_000)
    parser.add_argument("--labels", type=int, default=30)
    parser.add_argument("--weights", type=float, help="default: those measured with")
    parser.add_argument("--work", type=float, default=1.0, help="times that of a visit")
    parser.add_argument("--tol", type=float, default=0.01, help="of --check")
    parser.add_argument("--problem", default="conll2000", help="whose passes are taken")
    parser.add_argument("--gbit", type=float, nargs="*", default=[10.0, 1.0])
    parser.add_argument("--latency", type=float, default=0.2e-3, help="seconds")
    parser.add_argument("--price", type=float, default=0.05, help="of a core-hour")
    parser.add_argument("--fan-out", type=int, default=50, help="transfers at a time")
    parser.add_argument("--write", type=Path, help="folder for the tables, as CSV")
    return parser.parse_args()


# ---- the model ----


@dataclass
class Count:
    """What a run does, whatever it runs on.

    Parameters
    ----------
    passes, rounds, known, checks : float
        Passes, rounds, those of known labelings among them, and gaps.
    of_pass : int, default=4
        Rounds of a pass.
    """

    passes: float
    rounds: float
    known: float
    checks: float
    of_pass: int = 4


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

    def parts(self, count, tokens, blocks, workers):
        """Seconds of all rounds and gaps, by what takes them.

        Parameters
        ----------
        count : Count
            What the run does.
        tokens, blocks, workers : int
            Sizes.

        Returns
        -------
        parts : dict of str to float
        """
        work, traffic, network = self.work, self.traffic, self.network
        per_block = tokens / blocks
        mine = -(-blocks // workers)
        crowding = work.crowding if workers > 1 else 1.0
        visits = per_block / count.of_pass
        seconds = count.known * work.known
        seconds += (count.rounds - count.known) * work.token
        seconds = seconds * visits + count.checks * per_block * work.check
        seconds = (seconds + count.rounds * work.call) * mine * crowding
        # a worker adds the changes of its blocks, ...
        change = self.changes(count, visits)
        together = self.changes(count, visits * mine)
        whole = self.changes(count, visits * blocks)
        adding = (mine - 1) * change * work.byte
        # ... and brings its weights up to what all blocks changed: as they came, and
        # those of the visits; the client takes them out
        copies = (2 * crowding + 1) * whole * work.copy
        down, up = self.down(workers), min(workers, blocks)
        up *= max(traffic.up, network.byte)
        # gaps are computed at weights that are sent like those of a round
        calls = 1.0 + count.checks / count.rounds
        state = tokens * work.state * max(traffic.up, network.byte)
        latency = traffic.round + workers * traffic.task
        latency += (2 + workers) * network.latency
        return {
            "blocks": seconds + count.rounds * (adding + copies),
            "down": count.rounds * calls * whole * down,
            "up": count.rounds * together * up,
            "tasks": count.rounds * calls * latency,
            "client": count.rounds * work.driver,
            "states": count.passes // KEEP_EVERY * state,
        }

    def down(self, workers):
        """Seconds of a byte that is sent to all workers."""
        first = max(self.traffic.down, self.network.byte)
        further = max(self.traffic.copy, self.network.byte)
        if workers <= FEW:
            return first + (workers - 1) * further
        # by way of the scheduler to one of them, from which the others fetch it
        first = 2 * max(self.traffic.down / 2, self.network.byte)
        return first + self.network.copies(workers) * further

    def changes(self, count, tokens):
        """Mean bytes of the change of a round of so many tokens."""
        known = count.known / count.rounds
        visits, others = self.work.bytes_of(tokens), self.work.bytes_of(tokens, True)
        return (1.0 - known) * visits + known * others

    def received(self, count, corpus, workers):
        """Bytes that come back from the workers."""
        mine = -(-corpus.shards // workers)
        tokens = corpus.tokens / corpus.shards / count.of_pass * mine
        return count.rounds * workers * self.changes(count, tokens)

    def sent(self, count, corpus, workers):
        """Bytes that go to the workers."""
        change = self.changes(count, corpus.tokens / count.of_pass)
        return (count.rounds + count.checks) * workers * change


# ---- passes, as measured ----


class Counts:
    """Passes, rounds and gaps as functions of the number of blocks, and of sequences.

    Logarithms of the passes are linear in those of the blocks and of the sequences,
    from four blocks on: ``passes = a B^b n^c``. Runs that were stopped count where they
    had made more passes by then. Rounds of known labelings and gaps in a pass are those
    of the run with the nearest number of blocks. Beyond what was measured, all of this
    is extrapolated.

    Parameters
    ----------
    rows : list of dict
        What `bench_partitioned.py` writes.
    problem : str
        Whose rows are read.
    known : str, default="auto"
        Those with visits of known labelings ("auto"), or without ("none").
    """

    def __init__(self, rows, problem, known="auto"):
        rows = [row for row in rows if row["problem"] == problem]
        self.full = max(row["sequences"] for row in rows)
        rows = [row for row in rows if row["known"] == known]
        whole = [row for row in rows if row["sequences"] == self.full]
        # how passes depend on the rounds in each, as far as it was measured
        of_four = {row["blocks"]: row for row in whole if row["rounds a pass"] == 4}
        self.factors = {
            row["rounds a pass"]: _passes(row) / _passes(of_four[row["blocks"]])
            for row in whole
        }
        self.factors[4] = 1.0
        self.whole = list(of_four.values())
        self._fit([row for row in rows if row["rounds a pass"] == 4])

    def _fit(self, rows):
        """Find a, b and c."""
        self.least = min(map(_passes, self.whole))
        rows = [row for row in rows if row["blocks"] >= 4]
        sure = [row for row in rows if not row["passes"].startswith(">")]
        self.line = self._line(sure)
        more = [
            row
            for row in rows
            if row["passes"].startswith(">")
            and _passes(row) > self.passes(row["blocks"], row["sequences"] / self.full)
        ]
        self.line = self._line(sure + more)

    def _line(self, rows):
        left = np.array(
            [(1.0, np.log(row["blocks"]), np.log(row["sequences"])) for row in rows]
        )
        left[:, 2] -= np.log(self.full)
        right = np.log([_passes(row) for row in rows])
        if np.ptp(left[:, 2]) == 0.0:
            left[:, 2] = 0.0
        line = np.linalg.lstsq(left, right, rcond=None)[0]
        # more blocks need no fewer passes, and more sequences in them no more
        return np.array([line[0], max(line[1], 0.0), min(line[2], 0.0)])

    def passes(self, blocks, share):
        """Passes with so many blocks, on a multiple of the sequences measured."""
        if blocks == 1:
            return self.least
        point = 1.0, np.log(blocks), np.log(share)
        return max(self.least, float(np.exp(self.line @ point)))

    def count(self, blocks, share, rounds=4):
        """What a run does."""
        near = min(self.whole, key=lambda row: abs(np.log(row["blocks"] / blocks)))
        passes = self.passes(blocks, share) * self.factors[rounds]
        known = near["of known"] / _passes(near) * rounds / 4 * passes
        checks = near["checks"] / _passes(near) * passes
        return Count(passes, passes * rounds + known, known, checks, rounds)


def _passes(row):
    return int(row["passes"].lstrip(">"))


# ---- tables ----


def resized(work, weights):
    """What blocks cost with another number of weights."""
    ratio = weights / work.weights
    return replace(work, weights=weights, driver=work.driver * ratio)


def alone(work, count, tokens):
    """Seconds of one process without blocks: nothing is sent."""
    visits = (count.rounds - count.known) * work.token + count.known * work.known
    return tokens * (visits / count.of_pass + count.checks * work.check)


@dataclass
class Planner:
    """Predictions for one network.

    Parameters
    ----------
    model : Model
        Seconds of a run.
    counts : dict of str to Counts
        With and without visits of known labelings.
    price : float
        Of a core-hour.
    """

    model: Model
    counts: dict
    price: float

    def alone(self, tokens):
        """Seconds of one process."""
        counts = self.counts["auto"]
        share = tokens / LENGTH / counts.full
        return alone(self.model.work, counts.count(1, share), tokens)

    def row(self, tokens, workers, rounds=4, known="auto"):
        """Seconds, cost, and what takes them, of a block on each worker."""
        counts, one = self.counts[known], self.alone(tokens)
        count = counts.count(workers, tokens / LENGTH / counts.full, rounds)
        parts = {"blocks": one}
        if workers > 1:
            parts = self.model.parts(count, tokens, workers, workers)
        seconds = sum(parts.values())
        return {
            "tokens": f"1e{round(np.log10(tokens))}",
            "Gbit/s": f"{self.model.network.gbit:g}",
            "workers": workers,
            "passes": round(count.passes),
            "seconds": round(seconds),
            "speed-up": f"{one / seconds:.1f}",
            "cost": f"{seconds * workers / 3600 * self.price:.2f}",
            **{
                f"{name} %": round(100 * parts.get(name, 0.0) / seconds)
                for name in ("blocks", "down", "up", "tasks", "client", "states")
            },
        }

    def remedies(self, tokens, workers):
        """What may be done where the network takes most of the time."""
        model = self.model
        tree = replace(model, network=replace(model.network, fan_out=2))
        fewer = replace(model, work=resized(model.work, model.work.weights // 10))
        for name, planner, options in (
            ("as it is", self, {}),
            ("rounds=1", self, {"rounds": 1}),
            ("cached_passes=0", self, {"known": "none"}),
            ("two transfers at a time", replace(self, model=tree), {}),
            ("a tenth of the weights", replace(self, model=fewer), {}),
            ("a tenth of the tokens", self, {"tokens": tokens // 10}),
        ):
            row = planner.row(options.pop("tokens", tokens), workers, **options)
            yield {"change": f"{name:24}"} | {
                key: row[key]
                for key in ("tokens", "Gbit/s", "passes", "seconds", "cost")
            }


def summary(rows):
    """Which number of workers is fastest, and how far more of them pay."""
    best, far = min(rows, key=lambda row: row["seconds"]), rows[0]
    for row in rows[1:]:
        # four times the workers must at least halve the time of some
        if row["seconds"] > far["seconds"] / (2 if far["workers"] > 1 else 1):
            break
        far = row
    return {
        "tokens": best["tokens"],
        "Gbit/s": best["Gbit/s"],
        "fastest": best["workers"],
        "in seconds": best["seconds"],
        "pays up to": far["workers"],
        "seconds": far["seconds"],
        "cost": far["cost"],
    }


def wide(rows):
    """The rows of one number of tokens as one row."""
    first = {"tokens": rows[0]["tokens"], "Gbit/s": rows[0]["Gbit/s"]}
    return first | {
        str(row["workers"]): f"{row['seconds']} ({row['speed-up']})" for row in rows
    }


def tables(options, corpus):
    """Measure, and print the tables."""
    work, traffic = Work.measure(corpus), Traffic.measure()
    units = show(work, traffic)
    if options.weights:
        work = resized(work, options.weights)
    times = {name: getattr(work, name) * options.work for name in VISITS}
    work = replace(work, **times)
    counted = json.loads((Path(__file__).parent / "bench_partitioned.json").read_text())
    counts = {
        known: Counts(counted, options.problem, known) for known in ("auto", "none")
    }
    ends, seconds, changes = [], [], []
    for gbit in options.gbit:
        network = Network(gbit, options.latency, options.fan_out)
        planner = Planner(Model(work, traffic, network), counts, options.price)
        for tokens in TOKENS:
            rows = (planner.row(tokens, workers) for workers in WORKERS)
            rows = live_table(f"{tokens:,} tokens, {gbit:g} Gbit/s", rows)
            ends.append(summary(rows))
            seconds.append(wide(rows))
        changes += planner.remedies(*REMEDY)
    live_table("How many workers", ends)
    live_table(f"What to do, with {REMEDY[1]} workers", changes)
    save(
        options.write,
        passes=by_blocks(counted),
        units=units,
        seconds=seconds,
        workers=ends,
        changes=changes,
    )


def by_blocks(counted):
    """Passes, and rounds, of all problems as rows of one table."""
    full = {}
    for row in counted:
        full[row["problem"]] = max(row["sequences"], full.get(row["problem"], 0))
    table = {}
    for row in counted:
        usual = row["rounds a pass"] == 4 and row["known"] == "auto"
        if usual and row["sequences"] == full[row["problem"]]:
            line = table.setdefault(row["blocks"], {"blocks": row["blocks"]})
            line[row["problem"]] = f"{row['passes']} ({row['rounds']})"
    # problems that were not counted with so many blocks
    return [
        {name: line.get(name, "") for name in ("blocks", *full)}
        for line in table.values()
    ]


def show(work, traffic):
    """Print what was measured; return it as rows."""
    measured = {**vars(work), **{f"{k}, cluster": v for k, v in vars(traffic).items()}}
    rows = ({"unit": f"{k:15}", "value": f"{v:.3g}"} for k, v in measured.items())
    return live_table("Measured", rows)


def save(folder, **named):
    """Write tables as CSV, for the documentation."""
    for name, rows in named.items() if folder else ():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(
                {key: str(value).strip() for key, value in row.items()} for row in rows
            )


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
    rows = live_table(
        f"seconds of {count.rounds} rounds on this machine",
        (compared(model, count, options, corpus, workers) for workers in (1, 2)),
    )
    save(options.write, check=rows)


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
        "MB down": round(model.sent(count, corpus, workers) / 1e6),
        "truly down": round(tagger.history_["bytes_down"][-1] / 1e6),
        "MB up": round(model.received(count, corpus, workers) / 1e6),
        "truly up": round(tagger.history_["bytes_up"][-1] / 1e6),
        "whole fit": f"{whole:.1f}",
        **{name: f"{value:.1f}" for name, value in parts.items()},
    }


def main():
    """Generate a corpus, measure, print."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="sksstruct-shards-") as folder:
        corpus = Corpus(folder, options.tokens, options.attributes, options.labels, 8)
        corpus.make()
        (check if options.check else tables)(options, corpus)


if __name__ == "__main__":
    main()
