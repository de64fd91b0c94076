"""Greedy direction method of multipliers for MAP: what the paper claims, run again.

Huang, Yen, Zhang, Huang, Ravikumar and Dhillon (AISTATS 2017). Two of its instances are
public files, the graph matching is made as the paper says, and the multilabel graph has
its sizes. TRW-S, MPLP and the subgradient method, which the paper calls PSDD, are those
of this package, so that seconds compare methods and not programs.
"""

import time

import numpy as np
from _claims import Outcome, Paper
from _map_graphs import known_values, many_labels, matching, random_domain, uai
from _subgradient import Subgradient

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import (
    MAPGDMM,
    MPLP,
    TRWS,
    MAPBinaryGDMM,
)
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.gdmm._toplists import Lists
from sksstruct.inference.map.gdmm.binary_state import MAPBinaryGDMMState
from sksstruct.inference.map.gdmm.state import MAPGDMMState

PAPER = Paper("gdmm_map", "Huang et al. (2017), GDMM for MAP inference")
ALIGNMENT = "image_alignment/ImageAlignment_13"
# Proteins of the data folder with the largest domains; the paper's 2BBN has 404 states.
PROTEIN = "protein/pdb1i24"
# (states, entries of a table, variables, factors) of Table 1.
TABLE_1 = {
    "Segmentation": (21, 441, 226, 842),
    "ImageAlignment": (83, 6889, 400, 3334),
    "MultiLabel": (2, 4, 3884, 7544670),
    "GraphMatching": (1034, 1069156, 188, 1864),
}
_cache = {}


def graph(name, full):
    """A graph of the paper, of our stand-in for it, or small ones of these kinds."""
    if (name, full) not in _cache:
        rng = np.random.default_rng(0)
        if not full:
            made = {
                "Segmentation": lambda: grid(rng, 6, 5),
                "ImageAlignment": lambda: random_domain("easy", 30),
                "GraphMatching": lambda: shared_table(rng, 20, 60, 200),
                "MultiLabel": lambda: many_labels(60, 6),
                "Protein": lambda: random_domain("frustrated", 20),
            }[name]()
        else:
            made = {
                "Segmentation": lambda: uai("segmentation/Segmentation_11", None),
                "ImageAlignment": lambda: uai(ALIGNMENT, None),
                "GraphMatching": lambda: matching(None, False),
                # a quarter of the labels: 471 thousand edges
                "MultiLabel": lambda: many_labels(971, 30),
                "Protein": lambda: uai(PROTEIN, None),
            }[name]()
        _cache[name, full] = made
    return _cache[name, full]


def grid(rng, side, n_states):
    """Smooth regions with noise, as a segmentation has."""
    at = np.arange(side * side).reshape(side, side)
    edges = np.concatenate([
        np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1),
        np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1),
    ])  # fmt: skip
    unaries = rng.normal(size=(side * side, n_states))
    return FactorGraph(unaries, edges, 0.5 * np.eye(n_states))


def shared_table(rng, n, n_edges, n_states):
    """One table for all edges, as in graph matching."""
    u, v = np.triu_indices(n, 1)
    keep = rng.choice(len(u), n_edges, replace=False)
    table = 1.0 / rng.integers(1, 7, size=(n_states, n_states))
    unaries = rng.poisson(0.5, size=(n, n_states)).astype(float)
    return FactorGraph(unaries, np.stack([u[keep], v[keep]], axis=1), table)


# ---- Table 1 ----


@PAPER.claim(
    "Table 1",
    "The sizes of the instances: states, entries of a factor, variables, factors.",
    small=False,
)
def table_1(full):
    rows = []
    for name, sizes in TABLE_1.items():
        g = graph(name, full)
        states = int(np.max(g.n_states))
        # the paper counts the factors of single variables too
        ours = states, states**2, g.n_variables, g.n_edges + g.n_variables
        header = "states", "entries", "variables", "factors"
        rows.append({"data": name, **dict(zip(header, ours, strict=True))})
        rows[-1]["in the paper"] = ", ".join(map(str, sizes))
        rows[-1]["same"] = "yes" if ours == sizes else "no"
    saw = (
        "Image alignment is the paper's instance. The segmentation is another image of "
        "the set; the graph matching has as many variables and states, and as many "
        "edges as the paper has factors; the multilabel graph is generated, with a "
        "quarter of the labels."
    )
    held = sum(row["same"] == "yes" for row in rows)
    why = "The other files are not public; ours are as near as we could get."
    return Outcome(held, saw, rows, of=len(rows), why=why)


PAPER.untestable(
    "Table 1, 2: Protein 2BBN, EurLex",
    "The same for the protein 2BBN (404 states) and a model trained on EurLex.",
    "Neither file was found in public. A protein with 81 states and a generated graph "
    "of attracting labels stand in for them in Table 2.",
)


# ---- Table 2 and Figure 1 ----


SOLVERS = {
    "GDMM": MAPGDMM(100000, 1e-7),
    "TRW-S": TRWS(100000),
    "MPLP": MPLP(100000),
    "PSDD": Subgradient(100000),
}
_found = {}


def solved(name, full):
    """Scores, seconds to them and curves of all solvers; the best score known."""
    if (name, full) not in _found:
        g, limit, found = graph(name, full), 12.0 if full else 0.3, {}
        solvers = dict(SOLVERS)
        if name == "MultiLabel":
            solvers["GDMM"] = MAPBinaryGDMM(100000, 1e-7, patience=1000)
        for label, solver in solvers.items():
            cpu, wall = time.process_time(), time.perf_counter()
            result = solver.solve(g, max_seconds=limit, random_state=0)
            # other processes take their share of the processor
            share = (time.process_time() - cpu) / (time.perf_counter() - wall)
            trace = result.trace
            top = trace["score"].max()
            first = np.argmax(trace["score"] >= top - 1e-9 * abs(top))
            seconds = share * float(trace["seconds"][first])
            curve = share * trace["seconds"], trace["score"]
            found[label] = result.score, seconds, curve, result.n_iter
        best = max(row[0] for row in found.values())
        if full and name in ("ImageAlignment", "Protein"):
            path = ALIGNMENT if name == "ImageAlignment" else PROTEIN
            known = known_values(None)[path.split("/")[1] + ".uai"]["log_value"]
            best = max(best, known)
        _found[name, full] = found, best
    return _found[name, full]


NAMES = ("Segmentation", "ImageAlignment", "MultiLabel", "Protein", "GraphMatching")


def is_best(score, best):
    """Whether a score is the best known, to the digits that the paper prints."""
    return best - score <= 1e-5 * abs(best)


@PAPER.claim(
    "Table 2: primal",
    "GDMM returns the best solution on all five data sets.",
    # a third of a second for each solver says little on a busy machine
    small=False,
)
def table_2(full):
    rows, wins, behind = [], 0, []
    for name in NAMES:
        found, best = solved(name, full)
        row = {"data": name, "best known": best}
        row.update({label: f"{f[0]:.2f}" for label, f in found.items()})
        others = max(f[0] for label, f in found.items() if label != "GDMM")
        top = max(found["GDMM"][0], others)
        if is_best(found["GDMM"][0], best if full else top):
            wins += 1
        else:
            short = 100 * (best - found["GDMM"][0]) / abs(best)
            behind.append(f"{name} by {short:.2g} %")
        rows.append(row)
    saw = f"GDMM finds the best labeling known on {wins} of {len(rows)}"
    saw += f"; it is behind on {' and '.join(behind)}." if behind else "."
    why = "On the others it stops at a labeling that is not the best."
    return Outcome(wins, saw, rows, of=len(rows), why=why)


@PAPER.claim(
    "Table 2: time",
    "TRW-S is the fastest on small domains; GDMM is the fastest on many factors and on "
    "large domains (graph matching).",
    small=False,
)
def table_2_time(full):
    rows, first = [], {}
    for name in NAMES:
        found, _ = solved(name, full)
        top = max(f[0] for f in found.values())
        row = {"data": name}
        for label, (score, seconds, *_) in found.items():
            row[label] = f"{seconds:.2g}" if is_best(score, top) else "-"
        reached = [label for label, f in found.items() if is_best(f[0], top)]
        first[name] = min(reached, key=lambda label: found[label][1])
        rows.append(row)
    saw = "; ".join(f"{name}: {label}" for name, label in first.items())
    published = {
        "Segmentation": "TRW-S", "ImageAlignment": "TRW-S",
        "MultiLabel": "GDMM", "GraphMatching": "GDMM",
    }  # fmt: skip
    held = sum(first[name] == label for name, label in published.items())
    saw = (
        f"The first with the best labeling found is, {saw}. The table has CPU seconds; "
        "a dash is a labeling that is not the best. The TRW-S of this package has "
        "sorted lists and shared tables too."
    )
    why = (
        "MPLP has the same compiled tables and search as TRW-S here, which the "
        "programs of the paper do not share."
    )
    curves = seconds_to(full, "Protein")
    axes = "CPU seconds", "relative primal gap, protein"
    return Outcome(held, saw, rows, curves, axes, of=len(published), why=why)


def seconds_to(full, name):
    """Relative primal gaps of all solvers against CPU seconds."""
    (found, best), curves = solved(name, full), {}
    for label, (_, _, (seconds, score), _) in found.items():
        gap = np.maximum((best - score) / abs(best), 1e-6)
        keep = np.flatnonzero(np.isfinite(gap))
        keep = keep[:: max(1, len(keep) // 100)]
        curves[label] = seconds[keep].tolist(), gap[keep].tolist()
    return curves


@PAPER.claim(
    "Fig. 1",
    "The relative primal gap of GDMM falls to zero on small and on large domains, "
    "where the subgradient method is left far behind.",
    small=False,
)
def figure_1(full):
    rows, ahead, both = [], 0, 0
    for name in NAMES:
        found, best = solved(name, full)
        gaps = {
            label: max(0.0, (best - f[0]) / abs(best)) for label, f in found.items()
        }
        rows.append({"data": name, **gaps})
        ahead += gaps["GDMM"] < gaps["PSDD"]
        both += gaps["GDMM"] < gaps["PSDD"] and gaps["GDMM"] < 1e-5
    zero = sum(row["GDMM"] < 1e-5 for row in rows)
    saw = (
        f"GDMM's gap to the best labeling known is below 1e-5 on {zero} of "
        f"{len(rows)}, and below that of the subgradient method on {ahead}."
    )
    axes, why = ("CPU seconds", "relative primal gap, graph matching"), "On the others "
    why += "the subgradient method ends at the same labeling, or GDMM at a worse one."
    curves = seconds_to(full, "GraphMatching")
    return Outcome(both, saw, rows, curves, axes, of=len(rows), why=why)


# ---- Table 3: active sets ----


@PAPER.claim(
    "Table 3",
    "Active sets are far smaller than the domains: a few entries of a factor's table, "
    "and with many factors a thousandth of the factors.",
    small=False,
)
def table_3(full):
    rows, curves, published = [], {}, {
        "Segmentation": 4.9, "ImageAlignment": 2.4, "GraphMatching": 1.66,
    }  # fmt: skip
    for name, theirs in published.items():
        g = graph(name, full)
        problem = MAPProblem(g)
        state = MAPGDMMState(problem, Lists(problem), 0.1)
        sizes = []
        for _ in range(50):
            state.sweep()
            sizes.append(state.n_active / g.n_edges)
        curves[name] = list(range(1, 51)), sizes
        rows.append({
            "data": name, "entries of a factor": int(np.max(g.n_states)) ** 2,
            "active, mean": float(np.mean(sizes)), "in the paper": theirs,
            "looked up in an iteration": state.looked_up / 50 / g.n_edges,
        })  # fmt: skip
    g = graph("MultiLabel", full)
    state = MAPBinaryGDMMState(MAPProblem(g), 0.1)
    sizes = []
    for _ in range(50):
        state.grow(8 + state.n_variables // 8, 8)
        state.iterate()
        sizes.append(state.n_active)
    rows.append({
        "data": "MultiLabel (edges)", "entries of a factor": g.n_edges,
        "active, mean": float(np.mean(sizes)), "in the paper": "6128 of 7544670",
        "looked up in an iteration": None,
    })  # fmt: skip
    share = rows[-1]["active, mean"] / g.n_edges
    largest = max(row["active, mean"] for row in rows[:3])
    saw = (
        f"The mean size of a factor's active set is at most {largest:.2g} entries of "
        f"tables of up to {rows[2]['entries of a factor']}; of the binary edges "
        f"{100 * share:.2g} % are active."
    )
    # far smaller: as tables are of all pairs, not more than a state has
    held = sum(
        row["active, mean"] < row["entries of a factor"] ** 0.5 for row in rows[:3]
    )
    held += share <= (1e-3 if full else 0.5)
    why = (
        "The generated graph has many times fewer edges than the paper's, and not as "
        "many times fewer active ones."
    )
    axes = "iterations", "active entries of a factor"
    return Outcome(held, saw, rows, curves, axes, of=4, why=why)


# ---- Theorems 1 and 2 ----


@PAPER.claim(
    "Theorems 1, 2",
    "The primal and the dual gap fall linearly: by a constant factor in so many "
    "iterations.",
)
def linear(full):
    """Graphs on which the relaxation is tight, so that the optimum is known."""
    rows, curves, worst = [], {}, 0.0
    # both need an optimum, which a tree has
    for name, n_states in (("Algorithm 1", 60 if full else 20), ("Algorithm 2", 2)):
        rng = np.random.default_rng(0)
        n = 40
        edges = [(int(rng.integers(v)), v) for v in range(1, n)]
        table = rng.normal(size=(n_states, n_states))
        if n_states == 2:
            table = np.array([[0.0, 0.0], [0.0, 1.0]])
        weights = rng.normal(size=n - 1) if n_states == 2 else None
        g = FactorGraph(rng.normal(size=(n, n_states)), edges, table,
                        edge_weights=weights)  # fmt: skip
        best = TRWS(1000).solve(g, random_state=0).score
        problem = MAPProblem(g)
        if n_states == 2:
            state = MAPBinaryGDMMState(problem, 0.3)
        else:
            state = MAPGDMMState(problem, Lists(problem), 0.3)
        gaps = []
        for _ in range(400):
            if n_states == 2:
                state.grow(100, 100)
                state.iterate()
            else:
                state.sweep()
            gaps.append(max(state.bound() - best, 1e-12))
        gaps = np.minimum.accumulate(gaps)
        end = int(np.argmax(gaps <= 1e-9)) or len(gaps)
        # the slowest hundredfold fall of the dual gap, in iterations
        steps = [int(np.argmax(gaps <= gaps[0] * 10.0**-k)) for k in (1, 2, 3, 4, 5)]
        slowest = max(np.diff([0, *steps]))
        worst = max(worst, slowest)
        rows.append({
            "method": name, "first dual gap": gaps[0], "last": gaps[-1],
            "iterations to 1e-5 of it": steps[-1], "slowest tenth": slowest,
        })  # fmt: skip
        t = np.arange(1, end + 1)
        curves[name] = t.tolist(), gaps[:end].tolist()
    held = all(row["last"] <= 1e-5 * row["first dual gap"] for row in rows)
    saw = (
        "On trees, where the optimum is known, the dual gap falls to 1e-5 of its first "
        f"value in {rows[0]['iterations to 1e-5 of it']} iterations of Algorithm 1 and "
        f"{rows[1]['iterations to 1e-5 of it']} of Algorithm 2; no factor of ten takes "
        f"more than {worst}."
    )
    return Outcome(held, saw, rows, curves, ("iterations", "dual gap"))


PAPER.untestable(
    "Section 5.2: memory",
    "Graph matching takes 260 MB, where AD3 takes 69 GB, MPLP 45 GB and TRW-S 13 GB.",
    "The other programs are not at hand. In this package all solvers share one table "
    "between the edges; benchmarks/bench_map.py measures what they take.",
)

if __name__ == "__main__":
    PAPER.main()
