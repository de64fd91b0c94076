"""MAP of factor graphs: real instances, large domains, matching, hard tables.

The tables of `doc/benchmarks/map.rst`. Every solver runs in a process of its
own, so that memory is its own; seconds are wall clock, from a graph in memory to the
labeling, everything the solver builds included. AD3 and toulbar2 run where they are
installed (`pip install pytoulbar2`; `ad3` has to be built with Cython 0.29).
"""

import argparse
import contextlib
import gzip
import multiprocessing
import sys
import time
from pathlib import Path

import _common
import numpy as np
from _map_families import FAMILIES
from _map_peers import PEERS

from sksstruct.commands.map import load
from sksstruct.datasets._fetch import get_data_home
from sksstruct.inference.map import resolve_map_solver

sys.path.append(str(Path(__file__).parents[1] / "examples" / "papers"))
from _map_graphs import known_values, many_labels, matching, random_domain, uai

SEGMENTATION = ["segmentation/Segmentation_11", "segmentation/Segmentation_15"]
ALIGNMENT = ["image_alignment/ImageAlignment_12", "image_alignment/ImageAlignment_13"]
# GDMM as published, its best rho: seconds with its lists, on the same kind of machine.
PUBLISHED = dict(zip(SEGMENTATION, (0.98, 0.51), strict=True))
PUBLISHED[ALIGNMENT[0]], PUBLISHED[ALIGNMENT[1]] = 0.134, 14.1


LARGER = [
    "csp/404.wcsp", "csp/54.wcsp", "pedigree/Family2Dominant.1.5loci",
    "promedas/or_chain_10.fg", "promedas/or_chain_108.fg", "promedas/or_chain_117.fg",
    "stereo_geo/GeomSurf-7-gm256", "wcsp_uai/wcsp_11",
]  # fmt: skip


# ---- measurement ----


def _memory(what):
    """VmRSS or VmHWM (its peak) in MB."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(what))
    return int(line.split()[1]) / 1024


def _forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _work(pipe, make, arguments, solver, parameters, seconds, cpu):
    if cpu:
        # limits are in CPU seconds, on machines with other work
        time.perf_counter = time.process_time
    before = _memory("VmRSS")
    graph = make(*arguments)
    built = _memory("VmRSS") - before
    _forget_peak()
    if solver in PEERS:
        score, when, proved = PEERS[solver](graph, seconds)
        peak = _memory("VmHWM") - before
        pipe.send((score, when, np.nan, np.inf, proved, built, peak, 0))
        return
    solver = resolve_map_solver(solver).set_params(**parameters)
    started = time.perf_counter()
    result = solver.solve(graph, max_seconds=seconds, random_state=0)
    total = time.perf_counter() - started
    trace = result.trace
    top = trace["score"].max()
    reached = trace["seconds"][np.argmax(trace["score"] >= top - 1e-9 * abs(top))]
    # what the solver had to build before its clock started
    reached += max(0.0, total - trace["seconds"][-1])
    row = (result.score, reached, total, result.bound,
           result.status in ("optimal", "infeasible"),
           built, _memory("VmHWM") - before, result.n_iter)  # fmt: skip
    pipe.send(row)


def measure(make, arguments, solver, seconds=60.0, cpu=False, **parameters):
    """Score, seconds to it, seconds in all, bound, proved, MB of graph and of all."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(theirs, make, arguments, solver, parameters, seconds, cpu)
    )
    process.start()
    theirs.close()
    try:
        # peers do not keep their limits
        row = ours.recv() if ours.poll((40 if cpu else 4) * seconds + 30) else None
    except EOFError:
        row = None
    process.kill()
    process.join()
    return row


def installed():
    found = []
    for name, module in (("toulbar2", "pytoulbar2"), ("ad3", "ad3")):
        try:
            __import__(module)
            found.append(name)
        except ImportError:
            print(f"{name} is not installed")
    return found


def shown(value, digits=4):
    return "-" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


# ---- tables ----


def pairwise_instances(home, seconds):
    """1: every instance of edges; bounds, and the distance to the best known."""
    known, rows = known_values(home), []
    folder = get_data_home(home) / "uai"
    for path in sorted(folder.glob("*/*.uai.gz")):
        name = f"{path.parent.name}/{path.name.removesuffix('.uai.gz')}"
        graph = uai(name, home)
        if any(len(scope) > 2 for scope in graph.factor_scopes):
            continue
        best = known[path.name.removesuffix(".gz")]
        row = measure(uai, (name, home), "auto", seconds)
        score, when, total, bound, proved, *_ = row
        value = best["log_value"]
        short = 100 * (value - score) / abs(value)
        low = bound < value - 1e-6 * abs(value)
        rows.append([name, shown(value, 3), shown(score, 3), f"{short:.4f}",
                     shown(when, 3), shown(total, 2), shown(bound, 3),
                     "yes" if proved else "no", "BELOW" if low else ""])  # fmt: skip
    _common.table(
        "Pairwise instances, solver='auto'",
        ["instance", "best known", "score", "short %", "s to it", "s", "bound",
         "proved", ""], rows,
    )  # fmt: skip


def speed(home, seconds):
    """2: seconds to the best labeling, beside the peers."""
    rows, known = [], known_values(home)
    for name in SEGMENTATION + ALIGNMENT:
        value = known[name.split("/")[1] + ".uai"]["log_value"]
        for solver in ("auto", "trws", "gdmm", "mplp", *installed()):
            row = measure(uai, (name, home), solver, seconds)
            if row is None:
                rows.append([name, solver, "-", "-", "-", ""])
                continue
            reached = value - row[0] <= 1e-5 * abs(value)
            ratio = PUBLISHED[name] / row[1] if reached else np.nan
            rows.append([name, solver, shown(row[0]), shown(row[1]),
                         "yes" if row[4] else "no", shown(ratio, 0)])  # fmt: skip
    _common.table(
        "Seconds to the best labeling; published GDMM / this",
        ["instance", "solver", "score", "s to it", "proved", "ratio"], rows,
    )  # fmt: skip


def domains(home, seconds):
    """3: growing domains."""
    del home
    rows = []
    for kind in ("easy", "frustrated"):
        for n_states in (50, 100, 200, 400, 800):
            table = 60 * n_states**2 * 8 / 2**20
            solvers = ["auto", "trws", "gdmm", "mplp"]
            if n_states <= 100:
                solvers += [*installed()]
            for solver in solvers:
                row = measure(random_domain, (kind, n_states), solver, seconds)
                if row is None:
                    rows.append([kind, n_states, solver] + ["-"] * 6)
                    continue
                per = 1e3 * row[2] / max(row[7], 1)
                rows.append([kind, n_states, solver, shown(row[0], 3), shown(row[1], 3),
                             shown(row[2], 2), shown(row[3], 3),
                             shown(per, 2) if row[7] else "-",
                             f"{row[6] / table:.2f}"])  # fmt: skip
    _common.table(
        "30 variables, 60 edges; memory of everything in units of the tables",
        ["potentials", "states", "solver", "score", "s to it", "s", "bound",
         "ms / iteration", "memory"], rows,
    )  # fmt: skip


def matchings(home, seconds):
    """4: one shared table."""
    rows = []
    for every in (False, True):
        graph = matching(home, every)
        size = f"{graph.n_variables} x {graph.n_states[0]}, {graph.n_edges} edges"
        for solver in ("auto", "gdmm", "trws"):
            row = measure(matching, (home, every), solver, seconds)
            rows.append([size, solver, shown(row[0]), shown(row[3]), shown(row[1], 3),
                         shown(row[2], 3), shown(row[6] - row[5], 0)])  # fmt: skip
    _common.table(
        "Graph matching; MB beyond the graph (AD3 and toulbar2 need a table per edge: "
        "15 GB)",
        ["graph", "solver", "score", "bound", "s to it", "s", "MB"], rows,
    )  # fmt: skip


def binary(home, seconds):
    """5: very many binary factors."""
    del home
    rows = []
    for solver, parameters in (
        ("auto", {}), ("gdmm_binary", {}), ("trws", {}), ("mplp", {}),
    ):  # fmt: skip
        row = measure(many_labels, (), solver, seconds, **parameters)
        rows.append([solver, shown(row[0], 3), shown(row[1], 2), shown(row[2], 2),
                     shown(row[5], 0), shown(row[6], 0)])  # fmt: skip
    _common.table(
        "3884 binary variables, 7.5 million edges",
        ["solver", "score", "s to it", "s", "MB of the graph", "MB in all"], rows,
    )  # fmt: skip


def _read_ours(pipe, path):
    before = _memory("VmRSS")
    _forget_peak()
    started = time.perf_counter()
    graph = load(path)
    seconds = time.perf_counter() - started
    peak = _memory("VmHWM") - before
    pipe.send((seconds, peak, _memory("VmRSS") - before, repr(graph)))


def _read_theirs(pipe, path):
    import pytoulbar2

    model = pytoulbar2.CFN(verbose=-1)
    before = _memory("VmRSS")
    _forget_peak()
    started = time.perf_counter()
    model.CFN.read(path)
    seconds = time.perf_counter() - started
    peak = _memory("VmHWM") - before
    pipe.send((seconds, peak, _memory("VmRSS") - before, ""))


def _in_process(target, path, seconds):
    """What a process of its own sends; None where it fails or takes too long."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, path))
    process.start()
    theirs.close()
    row = None
    with contextlib.suppress(EOFError):
        row = ours.recv() if ours.poll(seconds) else None
    process.kill()
    process.join()
    return row


def readers(home, seconds):
    """6: the ten largest files, from the compressed file to the graph."""
    folder, rows = get_data_home(home) / "uai", []
    paths = [path for kind in ("uai", "wcsp") for path in folder.glob(f"*/*.{kind}.gz")]
    paths.sort(key=lambda path: len(gzip.decompress(path.read_bytes())))
    for path in paths[:-11:-1]:
        size = len(gzip.decompress(path.read_bytes())) / 1e6
        here = _in_process(_read_ours, str(path), seconds)
        there = None
        if "toulbar2" in installed():
            there = _in_process(_read_theirs, str(path), seconds)
        there = there or (np.nan, np.nan, np.nan)
        row = [path.name.removesuffix(".gz"), shown(size, 1), shown(here[0], 3)]
        row += [shown(there[0], 3), shown(there[0] / here[0], 1), shown(here[1], 0)]
        row += [shown(here[2], 0), shown(there[1], 0), shown(there[2], 0)]
        rows.append(row)
    _common.table(
        "Readers: seconds, and MB at most and afterwards",
        ["file", "MB of text", "s", "toulbar2 s", "ratio", "MB at most", "MB",
         "toulbar2 at most", "toulbar2 MB"], rows,
    )  # fmt: skip


def family(name, seed):
    make, parameters = FAMILIES[name]
    return make(seed=seed, **parameters)


def families(home, seconds):
    """7: generated problems with hard tables; seconds in all, to the proof if any."""
    del home
    rows = []
    for name in FAMILIES:
        for seed in range(3):
            row = [f"{name}, {seed}"]
            for solver in ("auto", *(x for x in installed() if x != "ad3"), "cp_sat"):
                found = measure(family, (name, seed), solver, seconds)
                if found is None:
                    row += ["-", "-", "-"]
                    continue
                # of peers only the time to the best labeling is known
                when = found[1] if np.isnan(found[2]) else found[2]
                row += [shown(found[0], 3), shown(when, 2), "yes" if found[4] else "no"]
            rows.append(row)
    _common.table(
        "Generated families",
        ["problem", "auto", "s", "proved", "toulbar2", "s to it", "proved",
         "CP-SAT", "s", "proved"], rows,
    )  # fmt: skip


def larger(home, seconds):
    """8: factors of three and more variables by one relaxation each."""
    rows = []
    for name in LARGER:
        row = [name]
        for solver in ("trws", "mplp", "gdmm"):
            found = measure(uai, (name, home), solver, seconds)
            row += [shown(found[0], 3), shown(found[3], 3), shown(found[2], 2)]
        rows.append(row)
    _common.table(
        "Factors of three and more variables: score, bound, seconds",
        ["instance", "TRW-S", "bound", "s", "MPLP", "bound", "s", "GDMM", "bound", "s",
         "max-product", "bound", "s"], rows,
    )  # fmt: skip


def of_file(name, home):
    path = get_data_home(home) / "uai" / name
    # the command looks for evidence where UAI models are not compressed
    evidence = path.with_name(path.name.removesuffix(".gz") + ".evid")
    return load(str(path), str(evidence) if evidence.exists() else None)


def everything(home, seconds):
    """9: every file that is read, and toulbar2 in turns; all seconds, or the limit."""
    known, rows, beside = known_values(home), [], "toulbar2" in installed()
    counts = dict.fromkeys(("best known", "known", "proved", "theirs", "both"), 0)
    for path in sorted((get_data_home(home) / "uai").glob("*/*.gz")):
        name = f"{path.parent.name}/{path.name}"
        ours = measure(of_file, (name, home), "auto", seconds)
        if ours is None:
            rows.append([name, "not read"] + [""] * 6)
            continue
        theirs = None
        if beside:
            theirs = measure(of_file, (name, home), "toulbar2", seconds)
        best = known.get(path.name.removesuffix(".gz"), {}).get("log_value", np.nan)
        counts["known"] += bool(np.isfinite(best))
        counts["best known"] += bool(best - ours[0] <= 1e-4 * abs(best))
        counts["proved"] += bool(ours[4])
        row = [name, shown(best, 3), shown(ours[0], 3), shown(ours[2], 2)]
        row += ["yes" if ours[4] else "no"]
        if theirs is None:
            row += [""] * 3
        else:
            counts["theirs"] += bool(theirs[4])
            counts["both"] += bool(theirs[4] and ours[4])
            row += [shown(theirs[0], 3), shown(theirs[1], 2)]
            row += ["yes" if theirs[4] else "no"]
        rows.append(row)
        print(row, flush=True)
    _common.table(
        f"Every instance: {counts}",
        ["instance", "best known", "auto", "s", "proved", "toulbar2", "s to it",
         "proved"], rows,
    )  # fmt: skip


# Where the instances of a folder come from.
SOURCES = {
    "ad3_fg": "AD3", "alchemy": "UAI 2012", "csp": "UAI 2012, AD3", "dbn": "UAI 2012",
    "grids": "UAI 2012, AD3", "image_alignment": "UAI 2014",
    "object_detection": "UAI 2012, AD3", "pedigree": "UAI 2012, toulbar2",
    "promedas": "UAI 2012", "protein": "UAI 2008, 2012", "protein_protein": "UAI 2012",
    "segmentation": "UAI 2014, AD3", "stereo_geo": "toulbar2", "wcsp": "toulbar2",
    "wcsp_uai": "UAI 2014",
}  # fmt: skip
LIMITS = 1.0, 5.0, 20.0


def by_family(home, seconds):
    """10: by folder and limit, instances whose best known value is reached, proofs."""
    known, rows = known_values(home), {}
    for path in sorted((get_data_home(home) / "uai").glob("*/*.gz")):
        family, name = path.parent.name, path.name.removesuffix(".gz")
        best = known.get(name, {}).get("log_value", np.nan)
        counts = np.zeros((len(LIMITS), 3), dtype=int)
        for k, limit in enumerate(each for each in LIMITS if each <= seconds):
            run = of_file, (f"{family}/{path.name}", home), "auto", limit
            found = measure(*run, cpu=True)
            if found is None:
                break
            near = best - found[0] <= 1e-4 * abs(best)
            counts[k] = near, best - found[0] < -1e-4 * abs(best), found[4]
            if found[4]:
                # it is proved by a later limit, too
                counts[k:] = counts[k]
                break
        if found is not None:
            row = rows.setdefault(family, [SOURCES[family], 0, 0, 0])
            row[1] += 1
            row[2] += bool(np.isfinite(best))
            row[3] = row[3] + counts
            print(f"{family}/{name}: {counts.tolist()}", flush=True)
    table = []
    for family, (source, n, n_known, counts) in rows.items():
        cells = [f"{near} ({above}), {proofs}" for near, above, proofs in counts]
        table.append([family, source, n, n_known, *cells])
    title = "Instances, those with a known value; reached (bettered), proved"
    header = ["family", "source", "all", "known", *(f"{s:g} s" for s in LIMITS)]
    _common.table(title, header, table)


SHORT = 0.5, 1.0, 5.0


def limits(home, seconds):
    """11: score, bound and CPU seconds where time is short."""
    makers = {
        f"{name}, {seed}": (family, (name, seed))
        for name in ("torus, 20 x 20", "spin glass, 6 x 6 x 6", "grid, 40 x 40 x 3")
        for seed in range(2)
    }
    makers["logistics_a"] = of_file, ("logistics_a.uai.gz", home)
    rows = []
    for name, (make, arguments) in makers.items():
        row = [name]
        for limit in (each for each in SHORT if each <= seconds):
            score, _, took, bound, _ = measure(
                make, arguments, "auto", limit, cpu=True
            )[:5]
            row += [shown(score), shown(bound), shown(took, 2)]
        rows.append(row)
    header = ["problem"]
    for limit in SHORT:
        header += [f"{limit:g} s", "bound", "took"]
    _common.table("Short limits", header, rows)


# Problems of the schedule's picture, with the seed.
SCHEDULE = ("torus, 20 x 20", 1), ("coloring, 120 x 4", 0), ("MAX-SAT, 200", 0)
# Rows of the picture's data for a problem, aside those that end a part, at most.
PICTURED = 200


def schedule(home, seconds, path=None):
    """12: seconds of each part of auto on three problems; a CSV for the picture."""
    del home
    parts, lines = [], ["problem,seconds,score,bound,part"]
    for name, seed in SCHEDULE:
        graph = family(name, seed)
        solver = resolve_map_solver("auto")
        result = solver.solve(graph, max_seconds=seconds, random_state=0)
        trace = result.trace
        took = np.diff(trace["seconds"], prepend=0.0)
        for part in dict.fromkeys(trace["part"].tolist()):
            of_part = trace["part"] == part
            turns = np.count_nonzero(np.diff(of_part, prepend=False) & of_part)
            closed = -np.diff(trace["bound"] - trace["score"], prepend=np.nan)
            row = [name, part, f"{took[of_part].sum():.2f}", turns]
            parts.append([*row, shown(np.nansum(closed[of_part]), 2)])
        parts.append([name, "all", f"{took.sum():.2f}", "-", shown(result.gap, 2)])
        lines += _pictured(name, trace)
    _common.table(
        "Parts of auto: gap closed by each, and at the end",
        ["problem", "part", "s", "turns", "gap"], parts,
    )  # fmt: skip
    if path:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf8")


def _pictured(name, trace):
    """Lines of the rows of a trace that end a part, and of rows at even distances."""
    part, when = trace["part"], trace["seconds"]
    keep = np.append(part[1:] != part[:-1], True)
    step = when[-1] / PICTURED
    keep |= np.diff(np.floor(when / step), prepend=-1.0) > 0
    for k in np.flatnonzero(keep):
        score, bound = trace["score"][k], trace["bound"][k]
        yield f'"{name}",{when[k]:.4f},{score:.8g},{bound:.8g},{part[k]}'


TABLES = {"readers": (readers, 60.0), "instances": (pairwise_instances, 60.0),
          "speed": (speed, 10.0), "domains": (domains, 8.0),
          "matching": (matchings, 20.0), "binary": (binary, 60.0),
          "families": (families, 20.0), "larger": (larger, 10.0),
          "everything": (everything, 20.0), "by_family": (by_family, 20.0),
          "limits": (limits, 5.0), "schedule": (schedule, 5.0)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--only", choices=list(TABLES), help="one table")
    parser.add_argument("--seconds", type=float, help="limit for each run")
    parser.add_argument("--csv", help="with --only schedule: the picture's data")
    options = parser.parse_args()
    for name, (make, seconds) in TABLES.items():
        if options.only in (None, name):
            more = [options.csv] if make is schedule else []
            make(options.data_home, options.seconds or seconds, *more)


if __name__ == "__main__":
    main()
