"""Checks of the arguments of a factor graph, and their conversion to arrays."""

import numpy as np

from sksstruct.factor_graphs._tables import Table, TableStore, as_table

# Sequences whose entries all exist at once; an iterator may reuse one array for all.
_AT_ONCE = (list, tuple, np.ndarray)


def checked_unaries(unaries):
    """Check unary scores; return numbers of states, offsets, and all scores, flat."""
    try:
        # copy the arrays of an iterator, which may yield one array repeatedly
        take = np.asarray if isinstance(unaries, _AT_ONCE) else np.array
        rows = [take(row, dtype=np.float64) for row in unaries]
    except (TypeError, ValueError):
        raise ValueError(
            "unaries must be a sequence of arrays of numbers, one for each variable"
        ) from None
    for v, row in enumerate(rows):
        if row.ndim != 1 or row.size == 0:
            raise ValueError(
                f"unaries[{v}] must have one dimension and at least one state, got "
                f"shape {row.shape}"
            )
    sizes = np.array([row.size for row in rows], dtype=np.int32)
    first = np.zeros(len(rows) + 1, dtype=np.intp)
    np.cumsum(sizes, out=first[1:])
    flat = np.concatenate(rows) if rows else np.zeros(0)
    wrong = ~(flat < np.inf)
    if wrong.any():
        v = int(np.searchsorted(first, np.argmax(wrong), side="right")) - 1
        raise ValueError(
            f"unaries[{v}] must be finite or -inf, and has an entry that is NaN or +inf"
        )
    return sizes, first, flat


def checked_edges(edges, n):
    """Check that edges are pairs of different variables below n; return an array."""
    try:
        edges = np.zeros((0, 2), dtype=np.int32) if edges is None else np.asarray(edges)
    except ValueError:
        raise ValueError("edges must be pairs of integers, rows of two") from None
    if edges.size == 0:
        edges = np.zeros((0, 2), dtype=np.int32)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(
            "edges must be pairs of integers, of shape (n_edges, 2), got shape "
            f"{edges.shape} and dtype {edges.dtype}"
        )
    wrong = ((edges < 0) | (edges >= n)).any(axis=1) | (edges[:, 0] == edges[:, 1])
    if wrong.any():
        e = int(np.argmax(wrong))
        raise ValueError(
            f"edges[{e}] is {tuple(edges[e].tolist())}: it must name two different of "
            f"{n} variables"
        )
    # copy, so that the caller may change the array afterwards
    return np.array(edges, dtype=np.int32, order="C")


def checked_edge_tables(tables, edge_tables, m):
    """Check tables; return the distinct tables, and the table index of each edge."""
    if tables is None:
        if m or edge_tables is not None:
            raise ValueError("tables must be given with edges or edge_tables, got None")
        return [], np.zeros(0, dtype=np.int32)
    if not isinstance(tables, (Table, *_AT_ONCE)):
        if hasattr(tables, "__array__"):
            tables = np.asarray(tables)
        else:
            tables = list(map(TableStore(), iterator_of(tables, "tables")))
    if _is_single(tables):
        if edge_tables is not None:
            raise ValueError(
                "edge_tables must be None if tables is a single table, which all edges "
                "share"
            )
        return [as_table(tables)], np.zeros(m, dtype=np.int32)
    unique, of_table = _distinct(tables)
    if edge_tables is None:
        if len(of_table) != m:
            raise ValueError(
                f"tables must be one for each of the {m} edges, got {len(of_table)}: "
                "give edge_tables, the index of the table of each edge"
            )
        return unique, of_table
    edge_tables = np.asarray(edge_tables)
    if edge_tables.shape != (m,) or (m and edge_tables.dtype.kind not in "iu"):
        raise ValueError(
            f"edge_tables must be {m} integers, one for each edge, got shape "
            f"{edge_tables.shape} and dtype {edge_tables.dtype}"
        )
    wrong = (edge_tables < 0) | (edge_tables >= len(of_table))
    if wrong.any():
        e = int(np.argmax(wrong))
        raise ValueError(
            f"edge_tables[{e}] must be in [0, {len(of_table)}), an index into tables, "
            f"got {edge_tables[e]}"
        )
    return unique, of_table[edge_tables.astype(np.intp)]


def _is_single(tables):
    """Whether `tables` is a single table, shared by all edges."""
    if isinstance(tables, Table):
        return True
    if isinstance(tables, np.ndarray):
        return tables.ndim == 2
    # a list of rows of numbers is a single table, a list of 2-D arrays is not
    return bool(tables) and not isinstance(tables[0], Table) and np.ndim(tables[0]) == 1


def _distinct(tables):
    """The distinct tables, and the index among them of each entry of `tables`."""
    # slices of an array are new objects: identity cannot find equal tables
    if isinstance(tables, np.ndarray):
        unique = [as_table(table) for table in tables]
        return unique, np.arange(len(unique), dtype=np.int32)
    # an object that occurs several times becomes one table
    make = table_maker(tables)
    converted = [make(table) for table in tables]
    unique = list({id(table): table for table in converted}.values())
    index = {id(table): t for t, table in enumerate(unique)}
    return unique, np.array([index[id(table)] for table in converted], dtype=np.int32)


def table_maker(values):
    """Return a function from entries to tables that maps equal entries to one table.

    Entries are compared by identity if all of them exist at once, otherwise by their
    numbers, because an iterator may change an array and yield it again.
    """
    if not isinstance(values, _AT_ONCE):
        return TableStore()
    known = {}

    def make(table):
        if id(table) not in known:
            known[id(table)] = as_table(table)
        return known[id(table)]

    return make


def iterator_of(values, name):
    try:
        return iter(() if values is None else values)
    except TypeError:
        raise ValueError(f"{name} must be a sequence, got {values!r}") from None


def checked_weights(weights, m):
    """Check the weights of m edges; return an array, or None."""
    if weights is None:
        return None
    try:
        weights = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("edge_weights must be numbers, one for each edge") from None
    if weights.shape != (m,) or not np.isfinite(weights).all():
        raise ValueError(
            f"edge_weights must be {m} finite numbers, one for each edge, got shape "
            f"{weights.shape}"
        )
    return weights


def checked_factor(factor, f, n, make):
    """Check a factor; return its scope and its table, which `make` converts."""
    if not isinstance(factor, (tuple, list)) or len(factor) != 2:
        raise ValueError(f"factors[{f}] must be (scope, table), got {factor!r:.80}")
    try:
        scope = np.asarray(factor[0])
    except ValueError:
        scope = np.zeros(0)
    if scope.ndim != 1 or not scope.size or scope.dtype.kind not in "iu":
        raise ValueError(
            f"factors[{f}]: the scope must be a sequence of variables, integers, got "
            f"{factor[0]!r:.80}"
        )
    if scope.min() < 0 or scope.max() >= n or len(np.unique(scope)) != len(scope):
        raise ValueError(
            f"factors[{f}]: the scope {scope.tolist()} must name different of {n} "
            "variables"
        )
    try:
        return scope.astype(np.intp), make(factor[1])
    except ValueError as error:
        raise ValueError(f"factors[{f}]: {error}") from None


def check_shape(table, sizes, name):
    if table.shape != tuple(sizes):
        raise ValueError(
            f"{name}: the table must have shape {tuple(int(k) for k in sizes)}, the "
            f"numbers of states of its variables, got {table.shape}"
        )


def checked_state_names(names, n_states):
    """Check names of states; return a tuple, or None, for each variable."""
    if names is None:
        return None
    rows = list(iterator_of(names, "state_names"))
    if len(rows) != len(n_states):
        raise ValueError(
            f"state_names must have an entry for each of the {len(n_states)} "
            f"variables, got {len(rows)}"
        )
    for v, row in enumerate(rows):
        if row is None:
            continue
        row = [row] if isinstance(row, str) else list(row)
        if not all(isinstance(name, str) for name in row):
            raise ValueError(f"state_names[{v}] must be strings, got {row!r:.80}")
        if len(row) != n_states[v] or len(set(row)) < len(row):
            raise ValueError(
                f"state_names[{v}] must be {n_states[v]} different names, got "
                f"{row!r:.80}"
            )
        rows[v] = tuple(map(str, row))
    return None if all(row is None for row in rows) else tuple(rows)


def number_of_state(state, v, names, name):
    """Number of a state that is given by name; a number is returned without checks."""
    if not isinstance(state, str):
        return state
    known = None if names is None else names[v]
    if known is None:
        raise ValueError(
            f"{name} has {state!r:.80} at variable {v}, whose states have no names"
        )
    if state not in known:
        raise ValueError(
            f"{name} has {state!r:.80} at variable {v}, whose states are "
            f"{list(known)!r:.160}"
        )
    return known.index(state)


def checked_evidence(evidence, n_states, names=None):
    """Check observed states; return an array with -1 for unobserved variables."""
    states = np.full(len(n_states), -1, dtype=np.int32)
    if evidence is None:
        return states
    if not isinstance(evidence, dict):
        raise ValueError(
            f"evidence must be a dict of states by variable, got "
            f"{type(evidence).__name__}"
        )
    for v, x in evidence.items():
        if isinstance(v, int | np.integer) and 0 <= v < len(n_states):
            x = number_of_state(x, v, names, "evidence")
        for value in (v, x):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise ValueError(f"evidence must map int to int, got {v!r}: {x!r}")
        if not 0 <= v < len(n_states):
            raise ValueError(
                f"evidence must be of variables in [0, {len(n_states)}), got variable "
                f"{v}"
            )
        if not 0 <= x < n_states[v]:
            raise ValueError(
                f"evidence has state {x} at variable {v}, which has {n_states[v]} "
                "states"
            )
        states[v] = x
    return states
