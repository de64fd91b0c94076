"""``sksstruct map``: find the best labeling of a factor graph in a file."""

import contextlib
import json
import math
import os
import sys
import time

from sksstruct.datasets import (
    dump_uai_solution,
    load_cfn,
    load_ergo,
    load_fg,
    load_uai,
    load_wcsp,
)
from sksstruct.datasets._text import plain_name
from sksstruct.inference.map import MAP_SOLVERS, Interrupted, resolve_map_solver


def add_parsers(commands):
    """Add the command ``map`` to a parser.

    Parameters
    ----------
    commands : object
        What ``add_subparsers`` returned.
    """
    best = commands.add_parser("map", help="find the best labeling of a factor graph")
    best.add_argument(
        "file",
        help="input: .uai, .LG, .erg, .wcsp, .cfn or .fg; .gz, .bz2 and .xz work too",
    )
    best.add_argument(
        "--evidence", help="evidence file (default: FILE.uai.evid, if it exists)"
    )
    best.add_argument(
        "--solver",
        default="auto",
        choices=list(MAP_SOLVERS),
        help="MAP solver (default: auto)",
    )
    best.add_argument(
        "--max-seconds",
        type=float,
        help="seconds from the start of the command on (default: no limit)",
    )
    best.add_argument("--max-iter", type=int, help="maximum number of iterations")
    best.add_argument(
        "--tol", type=float, default=1e-6, help="tolerance (default: 1e-6)"
    )
    best.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    best.add_argument("--output", help="result file (default: FILE.MPE)")
    best.add_argument("--json", action="store_true", help="print one JSON object")
    best.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="show progress; -vv shows every iteration",
    )  # fmt: skip
    best.set_defaults(run=run)


def load(path, evidence=None):
    """Read a factor graph from a file, in the format that the file's name states.

    Parameters
    ----------
    path : str
        File.
    evidence : str, default=None
        Evidence file of a UAI model.

    Returns
    -------
    graph : FactorGraph
        The graph.
    """
    stem = path[: len(path) - len(os.path.basename(path))] + plain_name(path)
    readers = {".wcsp": load_wcsp, ".cfn": load_cfn, ".fg": load_fg}
    reader = readers.get(os.path.splitext(stem)[1])
    if reader is not None:
        if evidence is not None:
            raise ValueError("evidence is for UAI models")
        return reader(path)
    if evidence is None and os.path.exists(stem + ".evid"):
        evidence = stem + ".evid"
    return (load_ergo if stem.endswith(".erg") else load_uai)(path, evidence=evidence)


def run(options):
    """Find the best labeling, write it to a file, and print score, bound and status.

    Parameters
    ----------
    options : argparse.Namespace
        The arguments.

    Returns
    -------
    code : int
        0, or 1 if no labeling was found, 2 if it could not be written, or 130 after an
        interrupt.
    """
    started = time.perf_counter()
    before = _seconds_of_process() if options.owns_process else 0.0
    graph = load(options.file, options.evidence)
    loaded = time.perf_counter()
    elapsed = loaded - started
    solver = resolve_map_solver(
        options.solver, max_iter=options.max_iter, tol=options.tol
    )
    # with --json, standard output must have a single object, so that progress is
    # printed to standard error
    with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
        if options.verbose:
            print(f"{graph}, read in {elapsed:.2f} s", flush=True)
        try:
            result = solver.solve(
                graph,
                max_seconds=_seconds_left(options.max_seconds, before + elapsed),
                random_state=options.seed,
                verbose=options.verbose,
            )
            interrupted = False
        except Interrupted as error:
            result, interrupted = error.result, True
    shown = {
        "status": str(result.status),
        "message": result.message,
        "score": float(result.score),
        "bound": float(result.bound),
        "solver": result.solver,
        "iterations": result.n_iter,
        "seconds": round(time.perf_counter() - loaded, 3),
    }
    code = _show(options, result, shown)
    return 130 if interrupted else code


def _seconds_of_process():
    """Return the seconds since the start of this process.

    Linux records the time of the start, to hundredths of a second. Elsewhere, the CPU
    time is a lower bound that lacks only the time that the process waited.
    """
    used = time.process_time()
    try:
        with open("/proc/self/stat", "rb") as file:
            # the name of the process comes first, in parentheses, and may have spaces
            fields = file.read().rpartition(b")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - started
        # imports take less than a minute: with a larger difference, the system counts
        # from another moment
        return seconds if used <= seconds < used + 60.0 else used
    except (OSError, AttributeError, IndexError, ValueError):
        return used


def _seconds_left(limit, elapsed):
    """Return the seconds that remain for the solver, at least a millisecond.

    The solver then returns a labeling even if no time is left. A limit that is shorter,
    zero or None is returned itself.
    """
    if limit is None or limit <= 0:
        return limit
    return max(limit - elapsed, min(limit, 1e-3))


def _show(options, result, shown):
    """Write the labeling, print the result, and return the exit code."""
    code = 0 if result.score > -math.inf else 1
    if code == 0:
        folder, name = os.path.split(options.file)
        output = options.output or os.path.join(folder, plain_name(name) + ".MPE")
        try:
            dump_uai_solution(result.labeling, output)
            shown["written"] = output
        except OSError as error:
            # the result is printed although the file could not be written
            print(f"error: {error}", file=sys.stderr)
            code = 2
    if options.json:
        # JSON has no infinite numbers
        for key in ("score", "bound"):
            shown[key] = shown[key] if math.isfinite(shown[key]) else None
        shown["labeling"] = result.labeling.tolist() if code != 1 else None
        print(json.dumps(shown))
        return code
    for key, value in shown.items():
        print(f"{key:<11}{value}")
    return code
