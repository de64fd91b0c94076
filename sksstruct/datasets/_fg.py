"""Factor graphs of binary variables in AD3's text format."""

import os

import numpy as np

from sksstruct.datasets._text import Tokens, open_write, read_bytes
from sksstruct.factor_graphs import FactorGraph, Logic

_KINDS = {b"XOR": "xor", b"ATMOSTONE": "atmostone", b"OR": "or", b"OROUT": "orout"}
_PAIR = np.array([[0.0, 0.0], [0.0, 1.0]])


def load_fg(path, *, trailing="error"):
    """Read a graph of binary variables with conditions and pairs.

    Parameters
    ----------
    path : path-like
        A ``.fg`` file with factors XOR, ATMOSTONE, OR, OROUT and PAIR; an error names
        any others. ``.gz`` files are decompressed.
    trailing : {"error", "ignore"}, default="error"
        What to do with text after the last factor.

    Returns
    -------
    graph : FactorGraph
        State 1 of a variable scores its log-potential, state 0 scores 0.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.
    """
    if trailing not in ("error", "ignore"):
        raise ValueError(f"trailing must be 'error' or 'ignore', got {trailing!r}")
    tokens = Tokens(read_bytes(path), os.fspath(path))
    n = tokens.integer("the number of variables", 0, tokens.left)
    m = tokens.integer("the number of factors", 0, tokens.left)
    unaries = np.zeros((n, 2))
    for v in range(n):
        unaries[v, 1] = tokens.number(f"the log-potential of variable {v + 1}")
    edges, weights, factors, tables = [], [], [], {}
    for f in range(m):
        kind, scope, negated = _read_scope(tokens, f, n)
        if kind == b"PAIR":
            edges.append(scope)
            weights.append(tokens.number("the log-potential of PAIR"))
            continue
        # equal conditions share a table; those of one or two variables are written out
        key = kind, tuple(negated)
        if key not in tables:
            table = Logic(_KINDS[kind], len(scope), negated)
            tables[key] = table.dense() if len(scope) <= 2 else table
        factors.append((scope, tables[key]))
    if not tokens.done() and trailing == "error":
        token = tokens.next("")
        tokens.fail(f"there is more after the last factor: {token[:30]!r}")
    return FactorGraph(
        unaries,
        np.array(edges, dtype=np.int32).reshape(-1, 2),
        _PAIR if edges else None,
        edge_weights=weights or None,
        factors=factors,
    )


def _read_scope(tokens, f, n):
    """Kind and scope of a factor, and which of its variables are negated."""
    kind = tokens.next(f"factor {f + 1}")
    if kind != b"PAIR" and kind not in _KINDS:
        tokens.fail(f"factors {kind[:30].decode('ascii', 'replace')} are not read")
    degree = tokens.integer("the degree", 1, min(n, tokens.left))
    ids = [tokens.integer("a variable", -n, n) for _ in range(degree)]
    if 0 in ids or len({abs(v) for v in ids}) < degree:
        tokens.fail(f"factor {f + 1} must name different variables, from 1 on")
    scope, negated = [abs(v) - 1 for v in ids], [v < 0 for v in ids]
    if kind == b"PAIR" and (degree != 2 or any(negated)):
        tokens.fail("PAIR needs two variables that are not negated")
    if kind == b"OROUT" and degree < 2:
        tokens.fail("OROUT needs two variables or more")
    return kind, scope, negated


def dump_fg(graph, path):
    """Write a graph of binary variables, pairs of (1, 1), and conditions.

    Parameters
    ----------
    graph : FactorGraph
        Tables of edges may score state (1, 1) only; larger factors are `Logic` of the
        kinds that `load_fg` reads.
    path : path-like
        The file; ``.gz`` files are compressed.
    """
    if (graph.n_states != 2).any():
        raise ValueError("all variables must be binary")
    if graph.offset or (graph.evidence >= 0).any():
        raise ValueError("an offset and evidence are not part of the format")
    names = {value: key.decode() for key, value in _KINDS.items()}
    weights = graph.edge_weights
    weights = np.ones(graph.n_edges) if weights is None else weights
    lines = []
    for (u, v), t, w in zip(graph.edges, graph.edge_tables, weights, strict=True):
        table = graph.tables[t].dense()
        if np.count_nonzero(table) != np.count_nonzero(table[1, 1]):
            raise ValueError(f"the edge ({u}, {v}) scores more than state (1, 1)")
        if not np.isfinite(w * table[1, 1]):
            raise ValueError(f"the edge ({u}, {v}) has a score that is not finite")
        lines.append(f"PAIR 2 {u + 1} {v + 1} {float(w * table[1, 1])!r}")
    for scope, t in zip(graph.factor_scopes, graph.factor_tables, strict=True):
        table = graph.tables[t]
        if getattr(table, "condition", None) not in names:
            raise ValueError(f"a factor over {scope.tolist()} is {table!r}")
        ids = [
            -v - 1 if no else v + 1 for v, no in zip(scope, table.negated, strict=True)
        ]
        text = " ".join(str(int(v)) for v in ids)
        lines.append(f"{names[table.condition]} {len(ids)} {text}")
    scores = graph.unaries.reshape(-1, 2)
    if np.any(scores[:, 0]) or not np.isfinite(scores).all():
        raise ValueError("state 0 of every variable must score 0, state 1 be finite")
    with open_write(path) as file:
        file.write(f"{graph.n_variables}\n{len(lines)}\n")
        file.writelines(f"{float(score)!r}\n" for score in scores[:, 1])
        file.writelines(line + "\n" for line in lines)
