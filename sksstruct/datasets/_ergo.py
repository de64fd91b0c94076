"""Bayesian networks in the Ergo format, of the UAI evaluations before 2008.

A file has the number of variables and the number of states of each; for each variable
the number of its parents and the parents; the comment ``/* Probabilities */``; and for
each variable the size of its table and the table, whose last index is the variable
itself. Further sections, which also begin with a comment, have names and are skipped.
"""

import os

import numpy as np

from sksstruct.datasets._parts import Parts
from sksstruct.datasets._text import blank_comments, read_bytes, tokens_of
from sksstruct.datasets._uai import load_uai_evidence, read_all_tables
from sksstruct.factor_graphs import FactorGraph
from sksstruct.utils.typing import PathLike


def load_ergo(
    path: PathLike, *, evidence: PathLike | dict[int, int] | None = None
) -> FactorGraph:
    """Read a Bayesian network in Ergo format.

    Parameters
    ----------
    path : path-like
        A ``.erg`` file; ``.gz``, ``.bz2`` and ``.xz`` files are decompressed. Parents
        are counted from 0, or from 1 if no reading from 0 is possible.
    evidence : path-like or dict, default=None
        Evidence file, or observed states by variable.

    Returns
    -------
    graph : FactorGraph
        Its scores are natural logarithms of the probabilities, -inf for zero.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.

    Examples
    --------
    >>> from sksstruct.datasets import load_ergo
    >>> with open("small.erg", "w") as file:
    ...     _ = file.write("2\\n2 2\\n0\\n1 0\\n/* Probabilities */\\n2 0.5 0.5\\n"
    ...                    "4 0.9 0.1 0.2 0.8\\n")
    >>> graph = load_ergo("small.erg", evidence={1: 1})
    >>> round(graph.score([1, 1]), 3)  # log(0.5 * 0.8)
    -0.916
    """
    data = read_bytes(path)
    begin = data.find(b"/* Probabilities */")
    if begin < 0:
        raise ValueError(f"{os.fspath(path)} has no section /* Probabilities */")
    end = data.find(b"/*", begin + 2)
    data = blank_comments(data[:end] if end > 0 else data)
    with tokens_of(path, data) as tokens:
        n = tokens.integer("the number of variables", 0, tokens.left)
        sizes = tokens.integers(n, "the number of states of a variable", 1, 2**31 - 1)
        parents = []
        for v in range(n):
            count = tokens.integer(
                f"the number of parents of variable {v}", 0, min(n, 63)
            )
            parents.append(tokens.integers(count, f"a parent of variable {v}", 0, n))
        shift = _first_number(tokens, parents, n)
        scopes = [np.append(p - shift, v) for v, p in enumerate(parents)]
        for v, scope in enumerate(scopes):
            if len(set(scope.tolist())) < len(scope):
                tokens.fail(f"variable {v} names a parent twice, or itself")
        # check the sizes before memory is allocated; float64 does not overflow
        entries = [np.prod(sizes[scope], dtype=np.float64) for scope in scopes]
        if sum(entries) + n > tokens.left:
            tokens.fail(
                f"the tables have {sum(entries):g} entries, and the file has at most "
                f"{tokens.left} more numbers"
            )
        parts = Parts(sizes, share=16)
        first = np.cumsum([0, *(len(scope) for scope in scopes)])
        flat = np.concatenate([*scopes, np.zeros(0, dtype=np.int64)])
        read_all_tables(
            tokens, parts, first, flat, np.array(entries, dtype=np.int64), log=False
        )
        tokens.finish("table")
    if evidence is not None and not isinstance(evidence, dict):
        evidence = load_uai_evidence(evidence, sizes)
    return parts.build(evidence)


def _first_number(tokens, parents, n):
    """Return the number of the first variable: 0, or 1 if 0 is not possible."""
    named = np.concatenate([*parents, np.zeros(0, dtype=np.int64)])
    from_one = (named == n).any() or any(v in p for v, p in enumerate(parents))
    if from_one and (named == 0).any():
        tokens.fail(
            "parents must be counted from 0 or from 1: one is 0, and one is the number "
            "of variables or the variable itself"
        )
    return int(from_one)
