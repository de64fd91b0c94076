"""Command line: ``python -m sksstruct map FILE``."""

import argparse
import os
import sys

from sksstruct.datasets import dump_uai_solution, load_fg, load_uai, load_wcsp
from sksstruct.inference.lp import MAP_SOLVERS, resolve_map_solver


def _parser():
    parser = argparse.ArgumentParser(prog="python -m sksstruct", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    best = commands.add_parser("map", help="find the best labeling of a factor graph")
    best.add_argument(
        "file", help="FILE.uai, FILE.LG, FILE.wcsp or FILE.fg, or .gz of it"
    )
    best.add_argument("--evidence", help="evidence file; FILE.uai.evid if it is there")
    best.add_argument("--solver", default="auto", choices=list(MAP_SOLVERS))
    best.add_argument("--time-limit", type=float, help="seconds")
    best.add_argument("--max-iter", type=int)
    best.add_argument("--tol", type=float, default=1e-6)
    best.add_argument("--seed", type=int, default=0)
    best.add_argument("--output", help="result file; FILE.MPE by default")
    best.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def load(path, evidence=None):
    """A graph from a file, by the file's name.

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
    stem = path.removesuffix(".gz")
    if stem.endswith(".wcsp") or stem.endswith(".fg"):
        if evidence is not None:
            raise ValueError("evidence is for UAI models")
        return load_wcsp(path) if stem.endswith(".wcsp") else load_fg(path)
    if evidence is None and os.path.exists(stem + ".evid"):
        evidence = stem + ".evid"
    return load_uai(path, evidence=evidence)


def main(arguments=None):
    """Run a command.

    Parameters
    ----------
    arguments : list of str, default=None
        Arguments; None: those of the process.

    Returns
    -------
    code : int
        0, or 1 where no labeling was found, or 2 where the input is wrong.
    """
    options = _parser().parse_args(arguments)
    try:
        graph = load(options.file, options.evidence)
        solver = resolve_map_solver(
            options.solver, max_iter=options.max_iter, tol=options.tol
        )
        print(graph)
        result = solver.solve(
            graph,
            time_limit=options.time_limit,
            random_state=options.seed,
            verbose=not options.quiet,
        )
        output = options.output or options.file.removesuffix(".gz") + ".MPE"
        found = result.score > float("-inf")
        if found:
            dump_uai_solution(result.labeling, output)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"status    {result.status}: {result.message}")
    print(f"score     {result.score!r}")
    print(f"bound     {result.bound!r}")
    print("labeling  " + " ".join(str(x) for x in result.labeling.tolist()))
    if found:
        print(f"written   {output}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
