"""Factor graphs of binary variables in AD3's text format."""

from typing import Literal

import numpy as np

from sksstruct.datasets._parts import check_total
from sksstruct.datasets._text import open_write, tokens_of
from sksstruct.factor_graphs import DenseTable, FactorGraph, Logic
from sksstruct.factor_graphs._tables import as_table
from sksstruct.utils.typing import PathLike

_KINDS = {b"XOR": "xor", b"ATMOSTONE": "atmostone", b"OR": "or", b"OROUT": "orout"}
_PAIR = np.array([[0.0, 0.0], [0.0, 1.0]])


def load_fg(
    path: PathLike, *, trailing: Literal["error", "ignore"] = "error"
) -> FactorGraph:
    """Read a graph of binary variables with conditions and pairs.

    Parameters
    ----------
    path : path-like
        A ``.fg`` file with factors XOR, ATMOSTONE, OR, OROUT and PAIR; other factors
        are an error. ``.gz``, ``.bz2`` and ``.xz`` files are decompressed.
    trailing : {"error", "ignore"}, default="error"
        Treatment of text after the last factor.

    Returns
    -------
    graph : FactorGraph
        The score of state 1 of a variable is its log-potential, that of state 0 is 0.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.

    Examples
    --------
    >>> from sksstruct.datasets import load_fg
    >>> with open("small.fg", "w") as file:
    ...     _ = file.write("2\\n1\\n1.5\\n2.0\\nXOR 2 1 2\\n")
    >>> graph = load_fg("small.fg")
    >>> graph.score([0, 1]), graph.score([1, 1])
    (2.0, -inf)
    """
    if trailing not in ("error", "ignore"):
        raise ValueError(f"trailing must be 'error' or 'ignore', got {trailing!r}")
    with tokens_of(path) as tokens:
        n = tokens.integer("the number of variables", 0, tokens.left)
        m = tokens.integer("the number of factors", 0, tokens.left)
        unaries = np.zeros((n, 2))
        unaries[:, 1] = tokens.numbers(n, "the log-potentials of variables")
        edges, weights, factors = [], [], {}
        pairs, of_pair, scopes, of_factor = [], [], [], []
        tables = [DenseTable(_PAIR)]
        for f in range(m):
            kind, scope, negated = _read_scope(tokens, f, n)
            if kind == b"PAIR":
                edges.append(scope)
                weights.append(tokens.number("the log-potential of PAIR"))
            elif len(scope) == 1:
                table = Logic(_KINDS[kind], 1, negated)
                unaries[scope[0]] += table.dense()
            else:
                # equal conditions share a table
                key = kind, tuple(negated)
                if key not in factors:
                    factors[key] = len(tables)
                    tables.append(as_table(Logic(_KINDS[kind], len(scope), negated)))
                (pairs if len(scope) == 2 else scopes).append(scope)
                (of_pair if len(scope) == 2 else of_factor).append(factors[key])
        if not tokens.done() and trailing == "error":
            token = tokens.next("")
            tokens.fail(
                f"expected the end of the file after the last factor, got "
                f"{token[:30]!r}: trailing='ignore' skips the rest"
            )
    return FactorGraph._assemble(
        np.full(n, 2), unaries.reshape(-1), edges + pairs,
        [0] * len(edges) + of_pair, tables,
        [np.array(scope, dtype=np.intp) for scope in scopes], of_factor, 0.0, None,
        edge_weights=np.array(weights + [1.0] * len(pairs)) if weights else None,
    )  # fmt: skip


def _read_scope(tokens, f, n):
    """Return the kind and scope of a factor, and whether each variable is negated."""
    kind = tokens.next(f"factor {f + 1}")
    if kind != b"PAIR" and kind not in _KINDS:
        tokens.fail(
            f"factor {f + 1} must be XOR, ATMOSTONE, OR, OROUT or PAIR, got "
            f"{kind[:30].decode('ascii', 'replace')}"
        )
    degree = tokens.integer("the degree", 1, min(n, tokens.left))
    ids = tokens.integers(degree, "a variable", -n, n).tolist()
    scope, negated = [abs(v) - 1 for v in ids], [v < 0 for v in ids]
    if -1 in scope or len(set(scope)) < degree:
        tokens.fail(f"factor {f + 1} must name different variables, from 1 on")
    if kind == b"PAIR" and (degree != 2 or any(negated)):
        tokens.fail("PAIR needs two variables that are not negated")
    if kind == b"OROUT" and degree < 2:
        tokens.fail("OROUT needs two variables or more")
    return kind, scope, negated


def dump_fg(graph: FactorGraph, path: PathLike) -> None:
    """Write a graph of binary variables, whose factors are pairs and conditions.

    Parameters
    ----------
    graph : FactorGraph
        Tables of edges may score state (1, 1) only; larger factors are `Logic` of the
        kinds that `load_fg` reads.
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` files are compressed.

    Examples
    --------
    >>> from sksstruct import FactorGraph
    >>> from sksstruct.datasets import dump_fg
    >>> from sksstruct.factor_graphs import Logic
    >>> xor = ((0, 1, 2), Logic("xor", 3))
    >>> graph = FactorGraph([[0, 1.5], [0, 2.0], [0, -1.0]], factors=[xor])
    >>> dump_fg(graph, "small.fg")
    >>> with open("small.fg") as file:
    ...     print(file.read().split())
    ['3', '1', '1.5', '2.0', '-1.0', 'XOR', '3', '1', '2', '3']
    """
    check_total(graph)
    if (graph.n_states != 2).any():
        v = int(np.argmax(graph.n_states != 2))
        raise ValueError(
            f"all variables of graph must be binary, and variable {v} has "
            f"{graph.n_states[v]} states"
        )
    if graph.offset or (graph.evidence >= 0).any():
        raise ValueError("graph must have neither offset nor evidence: .fg has none")
    names = {value: key.decode() for key, value in _KINDS.items()}
    lines = []
    for scope, table, weight in graph._listed():
        if len(scope) == 2:
            u, v = scope
            scores = table.dense()
            if np.count_nonzero(scores) != np.count_nonzero(scores[1, 1]):
                raise ValueError(
                    f"the edge ({u}, {v}) must have score 0 except for states (1, 1): "
                    "use FactorGraph tables of this form"
                )
            if not np.isfinite(weight * scores[1, 1]):
                raise ValueError(
                    f"the edge ({u}, {v}) must have a finite score of states (1, 1), "
                    f"got {weight * scores[1, 1]}"
                )
            lines.append(f"PAIR 2 {u + 1} {v + 1} {float(weight * scores[1, 1])!r}")
            continue
        if table.condition not in names:
            raise ValueError(
                f"the factor of {scope.tolist()} must be a Logic of the kinds "
                f"{sorted(names)}, got {table!r:.80}"
            )
        ids = [
            -v - 1 if no else v + 1 for v, no in zip(scope, table.negated, strict=True)
        ]
        text = " ".join(str(int(v)) for v in ids)
        lines.append(f"{names[table.condition]} {len(ids)} {text}")
    scores = graph.unaries.reshape(-1, 2)
    if np.any(scores[:, 0]) or not np.isfinite(scores).all():
        raise ValueError(
            "unaries of graph must be 0 for state 0 of every variable, and finite for "
            "state 1"
        )
    with open_write(path) as file:
        file.write(f"{graph.n_variables}\n{len(lines)}\n")
        file.writelines(f"{float(score)!r}\n" for score in scores[:, 1])
        file.writelines(line + "\n" for line in lines)
