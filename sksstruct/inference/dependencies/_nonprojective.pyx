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

The k best trees are found by branching (Lawler, 1972). The trees other than a best one
T are divided by the first word whose head is not that of T: place (T, j) has the heads
of T up to word j - 1, and another one than T for word j. What a place is worth is
bounded first, and its best tree is found when the bound is the largest of all; if it is
still the largest then, this tree is the next.

Bounds: the gains of nodes are dual prices. The gains of all nodes that an arc enters
are at least its score, and the difference is its slack. A tree scores at least that
much less than the best one. Without an arc of T, it has another one into the node whose
arc that was: the least slack of these arcs.

E. L. Lawler, "A procedure for computing the K best solutions to discrete optimization
problems and its application to the shortest path problem", Management Science 18, 1972.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.dependencies._arcs cimport load_rows, row_length, tree_score
from sksstruct.utils._pointers cimport const_doubles, doubles, int32s
from sksstruct.utils._simd cimport sks_first, sks_max

cdef enum:
    NEW, ON_PATH, DONE


cdef struct Contraction:
    # Node 0 is the root, 1 to n are the words, and cycles that were contracted follow.
    Py_ssize_t n, ld, n_nodes
    bint single_root
    double* arcs        # (n + 1, ld), by modifier
    double* rows        # (n + 1, ld): for each head, the best arc into a node, relative
    int32_t* via        # (n + 1, ld): and the modifier of this arc
    # of each of 2 n + 1 nodes: how much its arc is worth, the head and the modifier of
    # this arc, the cycle it is in (0: none), its row, and marks
    double* gain
    int32_t* head
    int32_t* modifier
    int32_t* parent
    int32_t* slot
    int32_t* state
    int32_t* top        # (n + 1,): the outermost node that a word is in


cdef Py_ssize_t nonprojective_scratch(Py_ssize_t n) noexcept nogil:
    """Numbers of memory that `nonprojective_max` needs."""
    # two tables of numbers and one of integers, numbers of nodes, integers of them
    return 3 * (n + 1) * row_length(n) + 8 * (n + 1)


cdef Contraction carve(Py_ssize_t n, bint single_root, double* scratch) noexcept nogil:
    """Divide memory of `nonprojective_scratch` numbers."""
    cdef Contraction t
    cdef Py_ssize_t nodes = 2 * (n + 1)
    t.n, t.ld, t.single_root = n, row_length(n), single_root
    t.n_nodes = n + 1
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


# ---- the k best trees ----

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


# ---- from Python ----

def tree_memory(Py_ssize_t n):
    """Return how many numbers of memory `find_tree` needs."""
    return nonprojective_scratch(n)


def find_tree(bint single_root, scores, scratch, heads):
    """Write the heads of a best tree, and return its score."""
    cdef Py_ssize_t n = len(heads)
    cdef const double* arcs = const_doubles(scores)
    cdef double* memory = doubles(scratch)
    cdef int32_t* tree = int32s(heads)
    cdef double value
    with nogil:
        value = nonprojective_max(n, single_root, arcs, memory, tree)
    return value


def topk_memory(Py_ssize_t n, Py_ssize_t k):
    """Return how many numbers of memory `find_topk` needs."""
    return nonprojective_topk_scratch(n, k)


def find_topk(bint single_root, scores, scratch, values, heads):
    """Write the best trees and their scores, and return their number."""
    cdef Py_ssize_t k = heads.shape[0], n = heads.shape[1], count
    cdef const double* arcs = const_doubles(scores)
    cdef double* memory = doubles(scratch)
    cdef double* found = doubles(values)
    cdef int32_t* trees = int32s(heads)
    with nogil:
        count = nonprojective_topk(n, single_root, arcs, k, memory, found, trees)
    return count
