"""The file formats of the UAI competitions: models, evidence, and solutions."""

from array import array

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.datasets._parts import Parts, check_total, list_factors, write_out
from sksstruct.datasets._scan import read_scopes, read_tables
from sksstruct.datasets._text import (
    blank_comments,
    open_write,
    plain_name,
    read_bytes,
    tokens_of,
)
from sksstruct.factor_graphs import FactorGraph
from sksstruct.utils.typing import Integers, PathLike

# Largest number of entries that are read in one call, unless a table has more.
_BLOCK = 1 << 15


def load_uai(
    path: PathLike,
    *,
    evidence: PathLike | dict[int, int] | None = None,
    log: bool | None = None,
) -> FactorGraph:
    """Read a graphical model in UAI format.

    Parameters
    ----------
    path : path-like
        A MARKOV or BAYES file; ``.gz``, ``.bz2`` and ``.xz`` files are decompressed.
    evidence : path-like or dict, default=None
        Evidence file, or observed states by variable. None: no evidence, even if a
        file ``*.evid`` is beside the model, which the command ``sksstruct map`` reads.
    log : bool, default=None
        Whether tables contain natural logarithms instead of potentials. None: True for
        files ``*.LG`` and ``*.LG.gz``, False for other files.

    Returns
    -------
    graph : FactorGraph
        The graph, whose scores are natural logarithms of the potentials, -inf for zero.
        Equal tables are shared.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.

    Examples
    --------
    >>> from sksstruct import LPMAPPredictor
    >>> from sksstruct.datasets import load_uai
    >>> with open("small.uai", "w") as file:
    ...     _ = file.write("MARKOV\\n2\\n2 2\\n1\\n2 0 1\\n4\\n1.0 3.0 2.0 0.5\\n")
    >>> LPMAPPredictor(random_state=0).predict([load_uai("small.uai")])[0].tolist()
    [0, 1]
    >>> round(load_uai("small.uai", evidence={0: 1}).score([1, 0]), 3)
    0.693
    """
    if log is None:
        log = plain_name(path).lower().endswith(".lg")
    with tokens_of(path) as tokens:
        kind = tokens.next("MARKOV or BAYES")
        if kind not in (b"MARKOV", b"BAYES"):
            tokens.fail(f"MARKOV or BAYES was expected, got {kind[:20]!r}")
        n = tokens.integer("the number of variables", 0, tokens.left)
        sizes = tokens.integers(n, "the number of states of a variable", 1, 2**31 - 1)
        first, scopes, entries = _read_scopes(tokens, sizes, bayes=kind == b"BAYES")
        parts = Parts(sizes, share=16)
        read_all_tables(tokens, parts, first, scopes, entries, log)
        tokens.finish("table")
    # free the scopes before the graph is built, whose scopes need about as much memory
    del scopes, first
    if evidence is not None and not isinstance(evidence, dict):
        evidence = load_uai_evidence(evidence, sizes)
    return parts.build(evidence)


def _read_scopes(tokens, sizes, bayes):
    """Read the scopes; return their offsets, the scopes, and the sizes of the tables.

    The scopes are concatenated. Their number, m, is read first.
    """
    n = len(sizes)
    m = tokens.integer("the number of factors", 0, tokens.left)
    if bayes and m != n:
        tokens.fail(f"a BAYES file has one factor for each of {n} variables, not {m}")
    first, scopes, entries, used = read_scopes(tokens, sizes, m)
    if bayes and not (used // 2 == 1).all():
        tokens.fail("each variable must be the last of the scope of one factor")
    # The file has entries for the states of variables in scopes. The states of all
    # other variables are limited here, as the graph takes memory for them.
    free = int(sizes[used == 0].sum())
    if free > len(tokens.data):
        tokens.fail(
            f"variables without factors have {free} states in all, too many for the "
            f"file: at most {len(tokens.data)} are read"
        )
    return first, scopes, entries


def read_all_tables(tokens, parts, first, scopes, entries, log):
    """Read the tables of all factors, some thousand entries at a time.

    Parameters
    ----------
    tokens : Tokens
        The file, up to the size of the first table.
    parts : Parts
        Receives the factors.
    first, scopes, entries : ndarrays
        Offsets of the scopes, all scopes concatenated, and sizes of the tables.
    log : bool
        Whether tables contain logarithms.
    """
    m, f = len(entries), 0
    block = np.empty(min(max(_BLOCK, entries.max(initial=1)), int(entries.sum())))
    while f < m:
        last, size = read_tables(tokens, entries, f, block, log)
        values = block[:size]
        if not log:
            if values.min(initial=0.0) < 0.0:
                begins = np.cumsum(entries[f:last])
                k = f + int(np.searchsorted(begins, np.argmax(values < 0.0), "right"))
                tokens.fail(
                    f"the table of factor {k} has a negative potential; do the tables "
                    "hold logarithms (log=True)?"
                )
            with np.errstate(divide="ignore"):
                np.log(values, out=values)
        if not parts.add_all(first[f : last + 1], scopes, entries[f:last], values):
            tokens.fail(
                f"factors up to {last - 1} have scores whose sum is too large for "
                "float64"
            )
        f = last


def load_uai_evidence(path: PathLike, n_states: Integers) -> dict[int, int]:
    """Read observed states.

    Parameters
    ----------
    path : path-like
        An evidence file: ``k v1 x1 .. vk xk``, optionally after the number of samples,
        0 or 1. ``/* Comments */`` are skipped.
    n_states : sequence of int
        Number of states of each variable.

    Returns
    -------
    evidence : dict of int to int
        Observed states by variable.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.

    Examples
    --------
    >>> from sksstruct.datasets import load_uai_evidence
    >>> with open("small.uai.evid", "w") as file:
    ...     _ = file.write("1 2 1")  # one variable: number 2 is in state 1
    >>> load_uai_evidence("small.uai.evid", n_states=[2, 2, 3])
    {2: 1}
    """
    with tokens_of(path, blank_comments(read_bytes(path))) as tokens:
        values = array("q")
        while not tokens.done():
            values.append(tokens.integer("evidence", 0, 2**62))
        # the number of samples is there if the number of tokens is even
        at = 1 if values and len(values) % 2 == 0 else 0
        if at and values[0] > 1:
            tokens.fail(f"the number of samples must be 0 or 1, got {values[0]}")
        if len(values) <= at or (len(values) == at + 1 and values[at] == 0):
            return {}
        if (at and values[0] == 0) or len(values) - at != 1 + 2 * values[at]:
            tokens.fail(
                f"the number of observed variables is {values[at]}, and so "
                f"{2 * values[at]} numbers have to follow, a variable and its state "
                f"for each; there are {len(values) - at - 1}"
            )
        evidence = {}
        for k in range(at + 1, len(values), 2):
            v, x = values[k], values[k + 1]
            if v >= len(n_states) or x >= n_states[v]:
                tokens.fail(
                    f"variable {v} is observed in state {x}, and n_states has no such "
                    "variable or state"
                )
            if v in evidence:
                tokens.fail(f"variable {v} is observed twice")
            evidence[v] = x
        return evidence


def dump_uai(graph: FactorGraph, path: PathLike, *, log: bool = False) -> None:
    """Write a graph as a MARKOV file.

    Parameters
    ----------
    graph : FactorGraph
        The graph; evidence is not part of the file (see `dump_uai_evidence`).
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` files are compressed.
    log : bool, default=False
        Whether to write logarithms instead of potentials.

    Examples
    --------
    >>> from sksstruct import FactorGraph
    >>> from sksstruct.datasets import dump_uai, load_uai
    >>> graph = FactorGraph([[0.0, 1.0], [0.5, 0.0]], [(0, 1)], [[1.0, 0], [0, 1.0]])
    >>> dump_uai(graph, "small.uai")
    >>> load_uai("small.uai").score([1, 1]) == graph.score([1, 1])
    True
    """
    check_total(graph)
    factors = list_factors(graph)
    with open_write(path) as file:
        file.write(f"MARKOV\n{graph.n_variables}\n")
        file.write(" ".join(str(k) for k in graph.n_states) + f"\n{len(factors)}\n")
        for scope, _, _ in factors:
            file.write(" ".join(str(int(v)) for v in (len(scope), *scope)) + "\n")
        # one table at a time: all dense tables may be much larger than the graph
        for _, table, weight in factors:
            values = write_out(table, weight).reshape(-1)
            if not log:
                finite = values[values > -np.inf]
                if finite.size and (finite.max() > 709.0 or finite.min() < -700.0):
                    raise ValueError(
                        f"the factor of {tuple(map(int, scope))} has a score that is "
                        "too large or too small for a potential: use log=True"
                    )
                values = np.exp(values)
            file.write(f"\n{len(values)}\n")
            file.write(" ".join(repr(float(x)) for x in values) + "\n")


def dump_uai_evidence(evidence: dict[int, int], path: PathLike) -> None:
    """Write observed states, as one sample.

    Parameters
    ----------
    evidence : dict of int to int
        Observed states by variable.
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` files are compressed.

    Examples
    --------
    >>> from sksstruct.datasets import dump_uai_evidence, load_uai_evidence
    >>> dump_uai_evidence({2: 1}, "small.uai.evid")
    >>> load_uai_evidence("small.uai.evid", n_states=[2, 2, 3])
    {2: 1}
    """
    with open_write(path) as file:
        pairs = " ".join(f"{int(v)} {int(x)}" for v, x in evidence.items())
        file.write(f"1\n{len(evidence)} {pairs}\n")


def load_uai_solution(path: PathLike, n_states: Integers) -> np.ndarray:
    """Read a labeling, the last solution of a result file.

    Parameters
    ----------
    path : path-like
        A file that begins with MPE or MAP.
    n_states : sequence of int
        Number of states of each variable.

    Returns
    -------
    labeling : ndarray of shape (n_variables,), intp
        State of each variable.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.

    Examples
    --------
    >>> from sksstruct.datasets import load_uai_solution
    >>> with open("small.uai.MPE", "w") as file:
    ...     _ = file.write("MPE\\n3 1 0 2\\n")
    >>> load_uai_solution("small.uai.MPE", n_states=[2, 2, 3]).tolist()
    [1, 0, 2]
    """
    with tokens_of(path) as tokens:
        head = tokens.next("MPE or MAP")
        if head not in (b"MPE", b"MAP"):
            tokens.fail(f"MPE or MAP was expected, got {head[:20]!r}")
        n, solution = len(n_states), []
        while not tokens.done():
            token = tokens.next("a state")
            if token == b"-BEGIN-":
                solution = []
            elif not token.isdigit() or len(token) > 18:
                tokens.fail(f"a state must be a number, got {token[:20]!r}")
            else:
                solution.append(int(token))
        if solution[:1] == [1] and len(solution) == n + 2:
            solution = solution[1:]
        if len(solution) != n + 1 or solution[0] != n:
            tokens.fail(
                f"expected a solution of {n} states, as n_states has, got "
                f"{len(solution) - 1}"
            )
        for v, x in enumerate(solution[1:]):
            if x >= n_states[v]:
                tokens.fail(f"variable {v} has {n_states[v]} states, got state {x}")
        return np.array(solution[1:], dtype=np.intp)


def dump_uai_solution(labeling: ArrayLike, path: PathLike) -> None:
    """Write a labeling as a result file.

    Parameters
    ----------
    labeling : array-like of int of shape (n_variables,)
        State of each variable.
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` files are compressed.

    Examples
    --------
    >>> from sksstruct.datasets import dump_uai_solution
    >>> dump_uai_solution([1, 0, 2], "small.uai.MPE")
    >>> with open("small.uai.MPE") as file:
    ...     file.read()
    'MPE\\n1\\n3 1 0 2\\n'
    """
    with open_write(path) as file:
        states = " ".join(str(int(x)) for x in labeling)
        file.write(f"MPE\n1\n{len(labeling)} {states}\n")
