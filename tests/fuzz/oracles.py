"""Inference on small problems with odd scores, against enumeration."""

from itertools import product

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from sksstruct import FactorGraph, LPMAPPredictor, inference
from sksstruct.projections import project_box_equality, project_simplex
from tests.fuzz._draws import decoded, table_of

SPECIAL = [0.0, 1.0, -1.0, 2.0, -2.0, -np.inf]
ORDINARY = table_of(SPECIAL, -5, 5)
# few odd ones: where any is none, the rest is not looked at
ODD = table_of(
    [*SPECIAL * 12, np.nan, np.inf, 1e308, -1e308, 1e154, 5e-324, -1e-310, 1e16], -5, 5
)
# Beyond this, an error is as good as an answer.
LARGE = 1e100


def _problem(draws, name):
    scores = draws.choice([ORDINARY, ORDINARY, ODD])
    n, k = draws.integer(1, 5), draws.integer(1, 4)
    if name == "cut":
        k = 2
    unary = draws.array((n, k), scores)
    parents = [draws.integer(0, v - 1) for v in range(1, n)]
    edges = [(parent, v) for v, parent in enumerate(parents, 1)]
    if name in ("cut", "map") and n > 2 and draws.flag():
        edges.append((0, n - 1) if parents[-1] else (1, n - 1))
    if name in ("chain", "sparse chain", "top-k", "sums of chains"):
        edges = [(v - 1, v) for v in range(1, n)]
    shape = (len(edges), k, k) if name != "sparse chain" else (k, k)
    if len(shape) == 3 and draws.flag():
        shape = shape[1:]
    return name, unary, edges, draws.array(shape, scores)


def _enumerate(unary, edges, tables):
    n, k = unary.shape
    labelings = np.array(list(product(range(k), repeat=n)))
    scores = np.zeros(len(labelings))
    with np.errstate(all="ignore"):
        for v in range(n):
            scores = scores + unary[v, labelings[:, v]]
        for e, (u, v) in enumerate(edges):
            table = tables if tables.ndim == 2 else tables[e]
            scores = scores + table[labelings[:, u], labelings[:, v]]
    return labelings, scores


def _table(tables, e):
    return tables if tables.ndim == 2 else tables[e]


def _refusable(unary, tables):
    """Whether an error is allowed: entries that are no scores, or too large."""
    parts = np.concatenate([unary.ravel(), tables.ravel()])
    finite = parts[np.isfinite(parts)]
    return bool(
        np.isnan(parts).any() or (parts == np.inf).any() or (abs(finite) > LARGE).any()
    )


def _must_refuse(unary, edges, tables):
    used = tables if len(edges) else tables[:0]
    return bool(np.isnan(unary).any() or (unary == np.inf).any()) or bool(
        len(edges) and (np.isnan(used).any() or (used == np.inf).any())
    )


def _same(one, other, scale):
    return one == other or abs(one - other) <= 1e-9 * scale


def _best(answer, labelings, scores, scale):
    labeling, score = answer
    assert _same(score, scores.max(), scale), (score, scores.max())
    if np.isfinite(score):
        row = np.flatnonzero((labelings == labeling).all(axis=1))
        assert _same(scores[row[0]], scores.max(), scale), labeling


def _chain(unary, edges, tables, *enumerated):
    _best(inference.viterbi(unary, tables), *enumerated)


def _sparse_chain(unary, edges, tables, *enumerated):
    _best(inference.viterbi(unary, sparse.csr_array(tables)), *enumerated)


def _tree(unary, edges, tables, *enumerated):
    _best(inference.max_product(unary, edges, tables), *enumerated)


def _topk(unary, edges, tables, labelings, scores, scale):
    k = 7
    rows, found = inference.viterbi_topk(unary, tables, k)
    expected = np.sort(scores[scores > -np.inf])[::-1][:k]
    assert len(found) == len(expected)
    assert np.all(abs(found - expected) <= 1e-9 * scale), (found, expected)
    assert len(np.unique(rows, axis=0)) == len(rows)


def _sums(function):
    def check(unary, edges, tables, labelings, scores, scale):
        expected = logsumexp(scores)
        log_partition, nodes, _ = function(unary, edges, tables)
        assert _same(log_partition, expected, scale), (log_partition, expected)
        if scale > 1e6:  # marginals are differences of large numbers
            return
        weight = np.exp(scores - expected)
        for v, row in enumerate(nodes):
            for state, probability in enumerate(row):
                truth = weight[labelings[:, v] == state].sum()
                assert abs(probability - truth) <= 1e-6, (v, state)

    return check


def _cut(unary, edges, tables, *enumerated):
    _best(inference.min_cut(unary, edges, tables), *enumerated)


def _map(unary, edges, tables, *enumerated):
    tables = [_table(tables, e) for e in range(len(edges))]
    graph = FactorGraph(unary, edges or None, tables or None)
    (labeling,) = LPMAPPredictor("highs").predict([graph])
    _best((labeling, graph.score(labeling)), *enumerated)


CHECKS = {
    "chain": _chain,
    "sparse chain": _sparse_chain,
    "tree": _tree,
    "top-k": _topk,
    "sums of chains": _sums(lambda u, _, t: inference.forward_backward(u, t)),
    "sums of trees": _sums(inference.sum_product),
    "cut": _cut,
    "map": _map,
}


def _supermodular(edges, tables):
    with np.errstate(all="ignore"):
        for e in range(len(edges)):
            t = _table(tables, e)
            if not t[0, 0] + t[1, 1] >= t[0, 1] + t[1, 0]:
                return False
    return True


def _check_oracle(name, unary, edges, tables):
    labelings, scores = _enumerate(unary, edges, tables)
    finite = np.concatenate([unary.ravel(), tables.ravel()])
    scale = 1.0 + abs(finite[np.isfinite(finite)]).sum()
    try:
        CHECKS[name](unary, edges, tables, labelings, scores, scale)
    except ValueError as error:
        infeasible = not (scores > -np.inf).any()
        allowed = _refusable(unary, tables) or infeasible
        allowed = allowed or (name == "cut" and not _supermodular(edges, tables))
        assert allowed, f"refused: {error}"
        return
    assert not _must_refuse(unary, edges, tables), "NaN or +inf was accepted"


NUMBERS = table_of(
    [0.0, 1.0, -1.0, 1e-300, 1e15, -1e20, 1e300, np.nan, np.inf], -10, 10, 0.3
)
FACTORS = np.array([1.0, -1.0, 0.5, 0.0])


def _projection(draws):
    n = draws.integer(1, 6)
    z, lower, upper = (draws.array(n, NUMBERS) for _ in range(3))
    a, c = draws.array(n, FACTORS), draws.array(1, NUMBERS)[0]
    return "projection", z, np.minimum(lower, upper), np.maximum(lower, upper), a, c


def _check_projection(_, z, lower, upper, a, c):
    if np.isfinite(z).all():
        with np.errstate(over="ignore"):
            total = project_simplex(z).sum()
        assert abs(total - 1) < 1e-9, total
    found = []
    for method in ("median", "sort"):
        try:
            found.append(project_box_equality(z, lower, upper, a, c, method=method))
        except ValueError:
            found.append(None)
    for x in found:
        if x is None:
            continue
        assert ((x >= lower) & (x <= upper)).all(), x
        size = abs(a * x).sum() + abs(c) + abs(z[np.isfinite(z)]).max(initial=0.0)
        assert abs(a @ x - c) <= 1e-7 * (1 + size), (a @ x, c)


def _case(draws):
    name = draws.choice([*sorted(CHECKS), "projection"])
    return _projection(draws) if name == "projection" else _problem(draws, name)


cases = decoded(220, _case)


def check(case):
    """The answer is that of enumeration, or an error where the scores allow one."""
    if case[0] == "projection":
        _check_projection(*case)
    else:
        _check_oracle(*case)
