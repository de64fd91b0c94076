"""Training in blocks: passes, rounds and seconds to a gap of 0.01, by blocks.

    python benchmarks/bench_partitioned.py [--only ocr conll2000 likelihood]
        [--tables passes parts seconds] [--write benchmarks/bench_partitioned.json]

"passes" does not depend on the machine, nor on what else it does, but for fits that
would take too long: ">" is what they did until then. "parts" is the same for a half and
a quarter of the sequences, for other numbers of rounds, and without visits of known
labelings. With --write, both are what `bench_scaling.py` reads. In "seconds", those of
the CPU are of all threads; wall clock is what threads are for, and needs an idle
machine.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

from _common import Clock, live_table

from _blocks import PROBLEMS, TOL, Meter, load, tagger  # isort: skip
from sklearn.exceptions import ConvergenceWarning

from sksstruct.solvers import BCFW, Partitioned

TABLES = ["passes", "parts", "seconds"]


def arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=TABLES)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--blocks", type=int, nargs="*", default=[1, 4, 16, 64, 256])
    parser.add_argument("--seconds-blocks", type=int, nargs="*", default=[1, 2, 4, 16])
    parser.add_argument("--jobs", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--most", type=float, default=45, help="CPU seconds of a fit")
    parser.add_argument("--write", type=Path, help="file for passes and rounds")
    return parser.parse_args()


def partitioned(blocks, rounds="auto", executor=None, known=True):
    """The solver of the benchmarks."""
    solver = None if known else BCFW(cached_passes=0)
    return Partitioned(
        solver=solver, blocks=blocks, tol=TOL, rounds=rounds, executor=executor
    )


def count(problem, X, y, blocks, most, rounds=4, share=1.0, known=True):
    """Passes and rounds of a fit to the first sequences."""
    n, meter = round(share * len(y)), Meter(most)
    fitted = tagger(problem, partitioned(blocks, rounds, meter, known))
    with Clock() as clock:
        try:
            fitted.fit(X[:n], y[:n])
        except KeyboardInterrupt:
            if not meter.stopped:
                raise
    return {
        "problem": problem,
        "sequences": n,
        "blocks": blocks,
        "rounds a pass": rounds,
        "passes": f"{'>' * meter.stopped}{fitted.n_iter_}",
        "rounds": meter.calls["advance"],
        "known": "auto" if known else "none",
        "of known": sum(row.known for row in meter.advances) // meter.n_blocks,
        "checks": meter.calls["check"],
        "calls / n": round(fitted.history_["oracle_calls"][-1] / n, 1),
        "kB a change": round(meter.added / len(meter.advances) / 1000, 1),
        "kB a sum": round(sum(meter.sums) / len(meter.sums) / 1000, 1),
        "CPU s": round(clock.seconds, 1),
    }


def settings(args, problem):
    """Blocks, rounds a pass and shares of the sequences, for the first two tables."""
    if "passes" in args.tables:
        yield from ({"blocks": blocks} for blocks in args.blocks)
    if "parts" in args.tables:
        yield from ({"blocks": b, "share": s} for b in (4, 16) for s in (0.5, 0.25))
        yield from ({"blocks": 16, "rounds": rounds} for rounds in (1, 16))
        if problem != "likelihood":
            yield from ({"blocks": b, "known": False} for b in (1, 4, 16, 64, 256))


def timed(problem, X, y, solver, n_jobs):
    """Seconds of a fit."""
    fitted = tagger(problem, solver, n_jobs)
    started = time.perf_counter()
    with Clock() as clock:
        fitted.fit(X, y)
    return {
        "problem": problem,
        "blocks": getattr(solver, "blocks", "none"),
        "threads": n_jobs,
        "passes": fitted.n_iter_,
        "calls / n": round(fitted.history_["oracle_calls"][-1] / len(y), 1),
        "gap": f"{fitted.dual_gap_:.5f}",
        "CPU s": round(clock.seconds, 1),
        "wall s": round(time.perf_counter() - started, 1),
    }


def main():
    """Print the tables."""
    args = arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    data = {problem: load(problem, args.data_home) for problem in args.only}
    counts = live_table(
        f"to a gap of 0.01, at most {args.most:g} CPU seconds each",
        (
            count(problem, *data[problem], most=args.most, **setting)
            for problem in args.only
            for setting in settings(args, problem)
        ),
    )
    if args.write:
        # what depends on neither the machine nor the form in which changes are sent
        kept = [
            {key: value for key, value in row.items() if not key.startswith("kB")}
            for row in counts
        ]
        lines = ",\n".join(map(json.dumps, kept))
        args.write.write_text(f"[\n{lines}\n]\n")
    if "seconds" in args.tables:
        solvers = [("auto", [1])]
        solvers += [(partitioned(b), args.jobs) for b in args.seconds_blocks]
        live_table(
            "seconds to a gap of 0.01",
            (
                timed(problem, *data[problem], solver, n_jobs)
                for problem in args.only
                for solver, jobs in solvers
                for n_jobs in jobs
            ),
        )


if __name__ == "__main__":
    main()
