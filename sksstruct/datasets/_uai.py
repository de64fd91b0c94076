"""The file formats of the UAI competitions: models, evidence, and solutions."""

import os
from array import array

import numpy as np

from sksstruct.datasets._parts import Parts, list_factors, write_out
from sksstruct.datasets._text import Tokens, open_write, read_bytes


def load_uai(path, *, evidence=None, log=None):
    """Read a graphical model in UAI format.

    Parameters
    ----------
    path : path-like
        A MARKOV or BAYES file; ``.gz`` files are decompressed.
    evidence : path-like or dict, default=None
        Evidence file, or observed states by variable.
    log : bool, default=None
        Whether tables contain natural logarithms instead of potentials. None: they do
        in files ``*.LG`` and ``*.LG.gz``.

    Returns
    -------
    graph : FactorGraph
        Its scores are natural logarithms of the potentials, -inf for zero. Equal tables
        are shared.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.
    """
    name = os.fspath(path)
    if log is None:
        log = name.lower().removesuffix(".gz").endswith(".lg")
    tokens = Tokens(read_bytes(path), name)
    kind = tokens.next("MARKOV or BAYES")
    if kind not in (b"MARKOV", b"BAYES"):
        tokens.fail(f"MARKOV or BAYES was expected, got {kind[:20]!r}")
    n = tokens.integer("the number of variables", 0, tokens.left)
    sizes = array("q")
    for v in range(n):
        sizes.append(tokens.integer(f"the states of variable {v}", 1, 2**31 - 1))
    first, scopes = _read_scopes(tokens, sizes, bayes=kind == b"BAYES")
    parts = Parts(sizes, share=16)
    for f in range(len(first) - 1):
        scope = scopes[first[f] : first[f + 1]]
        if not parts.add(scope, _read_table(tokens, f, [sizes[v] for v in scope], log)):
            tokens.fail(f"factor {f} is zero, or has too large sums with others")
    tokens.finish("table")
    # the graph takes about as much memory again
    del scopes, first
    if evidence is not None and not isinstance(evidence, dict):
        evidence = load_uai_evidence(evidence, sizes)
    return parts.build(evidence)


def _read_scopes(tokens, sizes, bayes):
    """Where the scope of each factor begins, and all scopes in a row.

    Checks that the file is long enough for the tables before allocating any memory.
    """
    n = len(sizes)
    m = tokens.integer("the number of factors", 0, tokens.left)
    if bayes and m != n:
        tokens.fail(f"a BAYES file has one factor for each of {n} variables, not {m}")
    scopes, first = array("i"), array("q", [0])
    # variables in some scope, and how often each is the last of one, up to 2
    used, last, needed = bytearray(n), bytearray(n), 0
    for f in range(m):
        arity = tokens.integer(f"the arity of factor {f}", 0, min(n, tokens.left, 64))
        entries, v = 1, -1
        for _ in range(arity):
            v = tokens.integer(f"a variable of factor {f}", 0, n - 1)
            if v in scopes[first[f] :]:
                tokens.fail(f"factor {f} names a variable twice")
            scopes.append(v)
            used[v] = 1
            entries *= sizes[v]
        if arity:
            last[v] = min(last[v] + 1, 2)
        first.append(len(scopes))
        needed += entries + 1
        if needed > tokens.left:
            tokens.fail(
                f"the tables up to factor {f} have {needed - f - 1} entries, which do "
                "not fit into the file"
            )
    if bayes and any(count != 1 for count in last):
        tokens.fail("each variable must be the last of the scope of one factor")
    # States of variables in some scope have entries in the file. The other states could
    # be so many that the graph does not fit into memory.
    free = sum(size for size, seen in zip(sizes, used, strict=True) if not seen)
    if free > len(tokens.data):
        tokens.fail(f"variables without factors have {free} states")
    return first, scopes


def _read_table(tokens, f, shape, log):
    """Scores of one factor, from potentials or logarithms."""
    entries = 1
    for size in shape:
        entries *= size
    given = tokens.integer(f"the size of the table of factor {f}")
    if given != entries:
        tokens.fail(f"the table of factor {f} has {entries} entries, not {given}")
    values = tokens.numbers(entries, f"the table of factor {f}", infinite=log)
    if not log:
        if values.min() < 0.0:
            tokens.fail(
                f"the table of factor {f} has a negative potential; do the tables hold "
                "logarithms (log=True)?"
            )
        with np.errstate(divide="ignore"):
            np.log(values, out=values)
    values.shape = shape or 1
    return values


def load_uai_evidence(path, n_states):
    """Read observed states.

    Parameters
    ----------
    path : path-like
        An evidence file: ``k v1 x1 .. vk xk``, which may follow a number of samples
        that has to be 0 or 1.
    n_states : sequence of int
        Number of states of each variable.

    Returns
    -------
    evidence : dict of int to int
        Observed states by variable.
    """
    tokens = Tokens(read_bytes(path), os.fspath(path))
    values = array("q")
    while not tokens.done():
        values.append(tokens.integer("evidence", 0, 2**62))
    # an odd number of tokens has no number of samples
    at = 1 if values and len(values) % 2 == 0 else 0
    if at and values[0] > 1:
        tokens.fail(f"there are {values[0]} samples, one was expected")
    if len(values) <= at or (len(values) == at + 1 and values[at] == 0):
        return {}
    if (at and values[0] == 0) or len(values) - at != 1 + 2 * values[at]:
        tokens.fail(
            f"{values[at]} observations need {2 * values[at]} numbers, there are "
            f"{len(values) - at - 1}"
        )
    evidence = {}
    for k in range(at + 1, len(values), 2):
        v, x = values[k], values[k + 1]
        if v >= len(n_states) or x >= n_states[v]:
            tokens.fail(f"there is no state {x} of a variable {v}")
        if v in evidence:
            tokens.fail(f"variable {v} is observed twice")
        evidence[v] = x
    return evidence


def dump_uai(graph, path, *, log=False):
    """Write a graph as a MARKOV file.

    Parameters
    ----------
    graph : FactorGraph
        The graph; evidence is not part of the file (see `dump_uai_evidence`).
    path : path-like
        The file; ``.gz`` files are compressed.
    log : bool, default=False
        Whether to write logarithms instead of potentials.
    """
    factors = list_factors(graph)
    with open_write(path) as file:
        file.write(f"MARKOV\n{graph.n_variables}\n")
        file.write(" ".join(str(k) for k in graph.n_states) + f"\n{len(factors)}\n")
        for scope, _, _ in factors:
            file.write(" ".join(str(int(v)) for v in (len(scope), *scope)) + "\n")
        # written out one at a time: all of them may be much larger than the graph
        for _, table, weight in factors:
            values = write_out(table, weight).reshape(-1)
            if not log:
                finite = values[values > -np.inf]
                if finite.size and (finite.max() > 709.0 or finite.min() < -700.0):
                    raise ValueError(
                        "a score is too large or too small for a potential: use "
                        "log=True"
                    )
                values = np.exp(values)
            file.write(f"\n{len(values)}\n")
            file.write(" ".join(repr(float(x)) for x in values) + "\n")


def dump_uai_evidence(evidence, path):
    """Write observed states, as one sample.

    Parameters
    ----------
    evidence : dict of int to int
        Observed states by variable.
    path : path-like
        The file; ``.gz`` files are compressed.
    """
    with open_write(path) as file:
        pairs = " ".join(f"{int(v)} {int(x)}" for v, x in evidence.items())
        file.write(f"1\n{len(evidence)} {pairs}\n")


def load_uai_solution(path, n_states):
    """Read a labeling from a result file: the last solution in it.

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
    """
    tokens = Tokens(read_bytes(path), os.fspath(path))
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
        tokens.fail(f"one solution of {n} states was expected")
    for v, x in enumerate(solution[1:]):
        if x >= n_states[v]:
            tokens.fail(f"variable {v} has {n_states[v]} states, got state {x}")
    return np.array(solution[1:], dtype=np.intp)


def dump_uai_solution(labeling, path):
    """Write a labeling as a result file.

    Parameters
    ----------
    labeling : array-like of int of shape (n_variables,)
        State of each variable.
    path : path-like
        The file; ``.gz`` files are compressed.
    """
    with open_write(path) as file:
        states = " ".join(str(int(x)) for x in labeling)
        file.write(f"MPE\n1\n{len(labeling)} {states}\n")
