"""Weighted constraint satisfaction problems in toulbar2's text format."""

import os

import numpy as np

from sksstruct.datasets._parts import Parts
from sksstruct.datasets._text import Tokens, open_write, read_bytes


def load_wcsp(path):
    """Read a weighted constraint satisfaction problem.

    Parameters
    ----------
    path : path-like
        A ``.wcsp`` file; ``.gz`` files are decompressed. Cost functions given by
        keywords, and interval domains, are refused.

    Returns
    -------
    graph : FactorGraph
        Scores are minus the costs, and -inf from the top cost of the first line on. A
        labeling whose total cost reaches the top cost is forbidden as well, which the
        graph does not know.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.
    """
    tokens = Tokens(read_bytes(path), os.fspath(path))
    tokens.next("the name")
    n = tokens.integer("the number of variables", 0, tokens.left)
    largest = tokens.integer("the largest domain", 0)
    m = tokens.integer("the number of cost functions", 0, tokens.left)
    top = tokens.integer("the top cost", 1)
    sizes = []
    for v in range(n):
        size = tokens.integer(f"the states of variable {v}")
        if size < 1:
            tokens.fail(
                f"variable {v} has {size} states: interval domains are not read"
            )
        if size > largest:
            tokens.fail(
                f"variable {v} has {size} states, the largest domain is {largest}"
            )
        sizes.append(size)
    # states cost memory whether or not a cost function lists them
    if sum(sizes) > max(len(tokens.data), 1000):
        tokens.fail(
            f"the variables have {sum(sizes)} states, more than the file tells of"
        )
    parts, shared = Parts(sizes, share=0), []
    # entries that may be written out: as many as bytes, or a few more
    entries_left = len(tokens.data) + 1_000_000
    for f in range(m):
        most = min(n, 64)
        arity = tokens.integer(f"the arity of cost function {f}", -most, most)
        scope = [
            tokens.integer(f"a variable of cost function {f}", 0, n - 1)
            for _ in range(abs(arity))
        ]
        if len(set(scope)) < len(scope):
            tokens.fail(f"cost function {f} names a variable twice")
        default = tokens.integer(f"the default cost of function {f}")
        if default == -1:
            word = tokens.next("a keyword")
            tokens.fail(f"cost functions by keyword are not read, got {word[:20]!r}")
        if default < 0:
            tokens.fail(f"the default cost of function {f} is negative")
        count = tokens.integer(f"the number of tuples of function {f}")
        shape = tuple(sizes[v] for v in scope)
        if count < 0:
            if -count > len(shared):
                tokens.fail(f"there is no shared cost function {-count} yet")
            table = shared[-count - 1]
            if table.shape != shape:
                tokens.fail(f"shared cost function {-count} has shape {table.shape}")
            if len(scope) == 1:
                entries_left -= shape[0]
                if entries_left < 0:
                    tokens.fail("too many costs of single variables")
        elif not scope:
            if count:
                tokens.fail("a constant cost has no tuples")
            parts.offset -= float(default)
            if default >= top:
                tokens.fail("a constant cost reaches the top cost")
            continue
        else:
            size = 1
            for k in shape:
                size *= k
            if size > entries_left:
                tokens.fail(
                    f"cost function {f} has {size} entries, too many to write out"
                )
            entries_left -= size
            table = _table(tokens, f, shape, default, count, top)
            if arity < 0:
                shared.append(table)
        parts.add(scope, table)
    if not tokens.done():
        tokens.next("")
        tokens.fail("there is more after the last cost function")
    return parts.build()


def _table(tokens, f, shape, default, count, top):
    if count * (len(shape) + 1) > tokens.left:
        tokens.fail(f"the {count} tuples of cost function {f} do not fit into the file")
    # compared as integers: from 2 ** 53 on not all of them are floats
    scores = np.full(shape, -np.inf if default >= top else -float(default))
    seen = np.zeros(shape, dtype=bool)
    for _ in range(count):
        states = tuple(
            tokens.integer(f"a state of cost function {f}", 0, k - 1) for k in shape
        )
        if seen[states]:
            tokens.fail(f"cost function {f} has a tuple twice")
        seen[states] = True
        cost = tokens.integer(f"a cost of function {f}", 0)
        scores[states] = -np.inf if cost >= top else -float(cost)
    return scores


def dump_wcsp(graph, path, *, name="graph", top=None):
    """Write a graph whose scores are integers that are not positive.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    path : path-like
        ``.gz`` files are compressed.
    name : str, default="graph"
        Name of the problem, without blanks.
    top : int, default=None
        Cost in the place of -inf; None: one more than all finite costs together.
    """
    weights = graph.edge_weights
    weights = np.ones(graph.n_edges) if weights is None else weights
    factors = [((), np.array(graph.offset))] if graph.offset else []
    factors += [((v,), graph.unary(v)) for v in range(graph.n_variables)]
    factors += [
        (tuple(scope), graph.tables[t].dense() * w)
        for scope, t, w in zip(graph.edges, graph.edge_tables, weights, strict=True)
    ]
    factors += [
        (tuple(scope), graph.tables[t].dense())
        for scope, t in zip(graph.factor_scopes, graph.factor_tables, strict=True)
    ]
    total = 0
    for scope, values in factors:
        finite = values[values > -np.inf]
        if (finite > 0).any() or (finite != np.round(finite)).any():
            raise ValueError(
                f"the scores of {tuple(int(v) for v in scope)} are not integers of at "
                "most zero, as minus costs have to be"
            )
        total += int(-finite.min()) if finite.size else 0
    top = total + 1 if top is None else top
    if not total < top < 2**53:
        raise ValueError(
            f"top = {top} must be above all costs together, {total}, and below 2 ** 53"
        )
    if name.split() != [name]:
        raise ValueError(f"name must be one word, got {name!r}")
    if (graph.evidence >= 0).any():
        raise ValueError("evidence is not part of the format: use unary scores")
    with open_write(path) as file:
        sizes = [str(k) for k in graph.n_states]
        largest = int(graph.n_states.max(initial=0))
        file.write(f"{name} {len(sizes)} {largest} {len(factors)} {top}\n")
        file.write(" ".join(sizes) + "\n")
        for scope, values in factors:
            head = " ".join(str(int(v)) for v in (len(scope), *scope))
            if not scope:
                file.write(f"{head} {int(-values)} 0\n")
                continue
            file.write(f"{head} 0 {np.count_nonzero(values)}\n")
            for states in np.argwhere(values != 0):
                cost = values[tuple(states)]
                cost = top if cost == -np.inf else int(-cost)
                file.write(" ".join(str(int(x)) for x in (*states, cost)) + "\n")
