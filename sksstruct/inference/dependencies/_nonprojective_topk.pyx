"""The k best dependency trees, by branching (Lawler, 1972).

The trees other than a best one T are divided by the first word whose head is not that
of T: place (T, j) has the heads of T up to word j - 1, and another one than T for word
j. What a place is worth is bounded first, and its best tree is found when the bound is
the largest of all; if it is still the largest then, this tree is the next.

Bounds: the gains of nodes (see `_nonprojective.pyx`) are dual prices. The gains of all
nodes that an arc enters are at least its score, and the difference is its slack. A tree
scores at least that much less than the best one. Without an arc of T, it has another
one into the node whose arc that was: the least slack of these arcs.

E. L. Lawler, "A procedure for computing the K best solutions to discrete optimization
problems and its application to the shortest path problem", Management Science 18, 1972.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.dependencies._arcs cimport load_rows, tree_score
from sksstruct.inference.dependencies._nonprojective cimport (
    Contraction,
    best_tree,
    carve,
    nonprojective_scratch,
)
from sksstruct.utils._simd cimport sks_first, sks_max


cdef struct Search:
    Py_ssize_t n, cells
    const double* scores
    const double* arcs  # of all trees
    double* bounds      # (k, n) of places, -inf for those that are not searched
    double* slack       # (2 n + 1,) of nodes around a word: the least of arcs
    double* total       # and the gains of the nodes within
    int32_t* mark       # and the word
    int32_t* trees
    int32_t* origin     # of each tree: the tree and the word of its place
    int32_t* first


cdef Py_ssize_t nonprojective_topk_scratch(Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Numbers of memory that `nonprojective_topk` needs."""
    return 2 * nonprojective_scratch(n) + k * (n + 1) + 5 * (n + 1)


cdef void forbid(Contraction* t, Py_ssize_t head, Py_ssize_t modifier) noexcept nogil:
    """Take an arc away."""
    t.arcs[modifier * t.ld + head] = -INFINITY


cdef void load_place(const Search* s, Contraction* t, Py_ssize_t tree,
                     Py_ssize_t word) noexcept nogil:
    """Leave the arcs of the trees of a place."""
    cdef const int32_t* heads = s.trees + tree * s.n
    cdef Py_ssize_t modifier, head
    memcpy(t.arcs, s.arcs, s.cells * sizeof(double))
    for modifier in range(1, word):
        for head in range(s.n + 1):
            if head != heads[modifier - 1]:
                forbid(t, head, modifier)
    forbid(t, heads[word - 1], word)
    # the place where the tree was found may be that of an arc to the same word
    while tree > 0 and s.first[tree] == word:
        tree = s.origin[tree]
        forbid(t, s.trees[tree * s.n + word - 1], word)


cdef void add_slack(const Search* s, const Contraction* t, Py_ssize_t word,
                    Py_ssize_t own) noexcept nogil:
    """Find the least slack of arcs to a word, for each node around it (0: all)."""
    cdef const double* row = t.arcs + word * t.ld
    cdef Py_ssize_t node = word, head, top = word
    cdef double total = 0.0
    while node:
        s.mark[node], s.total[node] = <int32_t> word, total
        s.slack[node] = INFINITY
        total += t.gain[node]
        top, node = node, t.parent[node]
    s.mark[0], s.total[0], s.slack[0] = <int32_t> word, total, INFINITY
    # by the innermost node that has both ends
    for head in range(s.n + 1):
        if head == own or row[head] == -INFINITY:
            continue
        # this would be a second arc from the root
        if head == 0 and t.single_root and t.head[top]:
            continue
        node = head
        while s.mark[node] != word:
            node = t.parent[node]
        s.slack[node] = min(s.slack[node], max(s.total[node] - row[head], 0.0))


cdef void add_places(Search* s, const Contraction* t, Py_ssize_t tree,
                     double value) noexcept nogil:
    """Bound the places of a tree, from the contraction that it was found by."""
    cdef const int32_t* heads = s.trees + tree * s.n
    cdef double* bounds = s.bounds + tree * s.n
    cdef Py_ssize_t word, node, around, entered
    for word in range(s.n):
        bounds[word] = -INFINITY
    for node in range(t.n_nodes):
        s.mark[node] = 0
    for word in range(1, s.n + 1):
        add_slack(s, t, word, heads[word - 1])
        node = word
        while node:
            # nodes whose arc was replaced have none of the tree
            if not t.state[node]:
                entered = t.modifier[node] - 1
                around = node
                while around:
                    around = t.parent[around]
                    bounds[entered] = max(bounds[entered], value - s.slack[around])
            node = t.parent[node]
    # the heads of the words before are given
    for word in range(s.first[tree] - 1):
        bounds[word] = -INFINITY


cdef void sort_trees(Py_ssize_t n, Py_ssize_t count, double* values,
                     int32_t* trees) noexcept nogil:
    """Put trees in order that rounding has put out of it."""
    cdef Py_ssize_t i, j, word
    for i in range(1, count):
        j = i
        while j > 0 and values[j] > values[j - 1]:
            values[j], values[j - 1] = values[j - 1], values[j]
            for word in range((j - 1) * n, j * n):
                trees[word], trees[word + n] = trees[word + n], trees[word]
            j -= 1


cdef Py_ssize_t nonprojective_topk(
    Py_ssize_t n, bint single_root, const double* scores, Py_ssize_t k, double* scratch,
    double* values, int32_t* trees
) noexcept nogil:
    """Find the k best trees; returns how many there are."""
    cdef Contraction t = carve(n, single_root, scratch)
    cdef Search s
    cdef Py_ssize_t count = 0, place = 0
    cdef double value
    s.n, s.cells, s.scores, s.trees = n, (n + 1) * t.ld, scores, trees
    s.arcs = scratch + nonprojective_scratch(n)
    s.bounds = scratch + 2 * nonprojective_scratch(n)
    s.slack = s.bounds + k * n
    s.total = s.slack + 2 * (n + 1)
    s.mark = <int32_t*> (s.total + 2 * (n + 1))
    s.origin = s.mark + 2 * (n + 1)
    s.first = s.origin + k
    load_rows(n, scores, 1.0, <double*> s.arcs)
    memcpy(t.arcs, s.arcs, s.cells * sizeof(double))
    while count < k:
        # the first tree is that of no place
        if count:
            value = sks_max(count * n, s.bounds)
            if value == -INFINITY:
                break
            place = sks_first(count * n, s.bounds, value)
            load_place(&s, &t, place // n, place % n + 1)
        value = -INFINITY
        if best_tree(&t, trees + count * n):
            value = tree_score(n, scores, trees + count * n)
        if count:
            s.bounds[place] = value
            # another place may have a better one
            if value < sks_max(count * n, s.bounds):
                continue
            s.bounds[place] = -INFINITY
        if value == -INFINITY:
            break
        values[count] = value
        s.origin[count] = <int32_t> (place // n)
        s.first[count] = <int32_t> (place % n + 1)
        add_places(&s, &t, count, value)
        count += 1
    sort_trees(n, count, values, trees)
    return count
