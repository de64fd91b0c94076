"""The best dependency tree, an arborescence (Chu and Liu, 1965; Edmonds, 1967).

A path grows backward: each node takes its best arc, and the head of this arc is the
next. Where it is on the path, the cycle is contracted to one node, whose arcs count for
what they are worth more than those that they replace. A path ends at the root, or in
one that did. All takes O(n^2): a node is chosen for once, and rows are merged once.

Exactly one word below the root: scores are then pairs, the number of arcs from the root
and their sum, in lexicographic order (Edmonds' algorithm only adds and compares). Words
and cycles of them have no arc from the root, so that all of the pair that is needed is
to take one from the root where there is no other. If two nodes must, there is no tree.

Ties: a node takes its lowest head, and a cycle keeps the arc of the node that comes
first on the cycle.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.dependencies._arcs cimport load_rows, row_length, tree_score
from sksstruct.utils._simd cimport sks_first, sks_max

cdef enum:
    NEW, ON_PATH, DONE


cdef Py_ssize_t nonprojective_scratch(Py_ssize_t n) noexcept nogil:
    """Numbers of memory that `nonprojective_max` needs."""
    # two tables of numbers and one of integers, numbers of nodes, integers of them
    return 3 * (n + 1) * row_length(n) + 8 * (n + 1)


cdef Contraction carve(Py_ssize_t n, bint single_root, double* scratch) noexcept nogil:
    """Divide memory of `nonprojective_scratch` numbers."""
    cdef Contraction t
    cdef Py_ssize_t nodes = 2 * (n + 1)
    t.n, t.ld, t.single_root = n, row_length(n), single_root
    t.arcs = scratch
    t.rows = t.arcs + (n + 1) * t.ld
    t.gain = t.rows + (n + 1) * t.ld
    t.via = <int32_t*> (t.gain + nodes)
    t.head = t.via + (n + 1) * t.ld
    t.modifier = t.head + nodes
    t.parent = t.modifier + nodes
    t.slot = t.parent + nodes
    t.state = t.slot + nodes
    t.top = t.state + nodes
    return t


cdef void begin(Contraction* t) noexcept nogil:
    """Make each word a node of its own."""
    cdef Py_ssize_t word, head
    memcpy(t.rows, t.arcs, (t.n + 1) * t.ld * sizeof(double))
    memset(t.parent, 0, 2 * (t.n + 1) * sizeof(int32_t))
    memset(t.state, 0, 2 * (t.n + 1) * sizeof(int32_t))
    t.n_nodes = t.n + 1
    t.state[0] = DONE
    for word in range(t.n + 1):
        t.top[word] = t.slot[word] = <int32_t> word
        for head in range(t.ld):
            t.via[word * t.ld + head] = <int32_t> word


cdef bint choose(Contraction* t, Py_ssize_t node) noexcept nogil:
    """Take the best arc into a node; False if there is none."""
    cdef Py_ssize_t slot = t.slot[node], head
    cdef const double* row = t.rows + slot * t.ld
    cdef double best = sks_max(t.n, row + 1)
    # words come first where the root may have one only
    if row[0] >= best and not (t.single_root and best > -INFINITY):
        head, best = 0, row[0]
    else:
        head = 1 + sks_first(t.n, row + 1, best)
    t.gain[node], t.head[node] = best, <int32_t> head
    t.modifier[node] = t.via[slot * t.ld + head]
    return best > -INFINITY


cdef Py_ssize_t contract(Contraction* t, Py_ssize_t first) noexcept nogil:
    """Make one node of the cycle that a node is on."""
    cdef Py_ssize_t cycle = t.n_nodes, slot = t.slot[first], node, other, head, after
    cdef double* row = t.rows + slot * t.ld
    cdef double value
    t.n_nodes += 1
    for head in range(t.n + 1):
        row[head] -= t.gain[first]
    node = t.top[t.head[first]]
    while node != first:
        other = t.slot[node] * t.ld
        for head in range(t.n + 1):
            value = t.rows[other + head] - t.gain[node]
            if value > row[head]:
                row[head] = value
                t.via[slot * t.ld + head] = t.via[other + head]
        node = t.top[t.head[node]]
    while t.parent[node] == 0:
        after = t.top[t.head[node]]
        t.parent[node] = <int32_t> cycle
        node = after
    # no arc leads from the cycle to itself
    for head in range(1, t.n + 1):
        if t.parent[t.top[head]] == cycle:
            t.top[head] = <int32_t> cycle
            row[head] = -INFINITY
    t.slot[cycle] = <int32_t> slot
    return cycle


cdef bint best_tree(Contraction* t, int32_t* heads) noexcept nogil:
    """Find the best tree of `arcs`; False if there is none.

    On return state[node] != 0 says that a cycle around a node replaced its arc: the
    other nodes have one arc of the tree each.
    """
    cdef Py_ssize_t start, node, word, n_roots = 0
    begin(t)
    for start in range(1, t.n + 1):
        node = t.top[start]
        while t.state[node] != DONE:
            t.state[node] = ON_PATH
            if not choose(t, node):
                return False
            node = t.top[t.head[node]]
            if t.state[node] == ON_PATH:
                node = contract(t, node)
        node = t.top[start]
        while t.state[node] != DONE:
            t.state[node] = DONE
            node = t.top[t.head[node]]
    # The arc of a cycle enters one of its nodes, whose own it replaces.
    memset(t.state, 0, t.n_nodes * sizeof(int32_t))
    for node in range(t.n_nodes - 1, 0, -1):
        if t.state[node]:
            continue
        heads[t.modifier[node] - 1] = t.head[node]
        n_roots += t.head[node] == 0
        word = t.modifier[node]
        while word != node:
            t.state[word] = 1
            word = t.parent[word]
    return n_roots == 1 or not t.single_root


cdef double nonprojective_max(Py_ssize_t n, bint single_root, const double* scores,
                              double* scratch, int32_t* heads) noexcept nogil:
    """Find a best tree; returns its score."""
    cdef Contraction contraction = carve(n, single_root, scratch)
    load_rows(n, scores, 1.0, contraction.arcs)
    if best_tree(&contraction, heads):
        return tree_score(n, scores, heads)
    memset(heads, 0, n * sizeof(int32_t))
    return -INFINITY
