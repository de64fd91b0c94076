"""The best dependency tree, an arborescence (Chu and Liu, 1965; Edmonds, 1967).

A path grows backward: each node takes its best arc, and the head of this arc is the
next node. If this node is on the path already, the cycle is contracted to one node,
whose arcs score their gain over the arcs of the cycle that they replace. A path ends at
the root, or at a node of a path that ended before. The algorithm takes O(n^2): each
node chooses once, and rows are merged once.

With exactly one word below the root, scores are pairs, the number of arcs from the root
and the sum of scores, in lexicographic order (Edmonds' algorithm only adds and
compares). Words, and cycles of words, have no arc from the root inside, so that it
suffices to take an arc from the root only if a node has no other arc. If two nodes have
no other arc, there is no tree.

Ties: a node takes its lowest head, and a cycle is opened at the first of equal nodes on
the cycle.

The k best trees are found by branching (Lawler, 1972). The trees other than a best tree
T are divided by the first word whose head differs from T's: place (T, j) contains the
trees that have the heads of T up to word j - 1 and another head for word j. Each place
first gets an upper bound; its best tree is computed when its bound is the largest of
all, and is the next tree if it is then still the largest.

Bounds: the gains of nodes are dual prices. The sum of the gains of all nodes that an
arc enters is at least the arc's score; the difference is the arc's slack, and a tree
with this arc scores less than the best tree by at least the slack. A tree without an
arc of T has another arc into the node that T's arc enters: the bound uses the least
slack of these arcs.

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
    # Nodes: 0 is the root, 1 to n are the words, followed by contracted cycles.
    Py_ssize_t n, ld, n_nodes
    bint single_root
    double* arcs        # (n + 1, ld): score of each arc, arcs[modifier, head]
    # (n + 1, ld), with a row for each node: score of the best arc from each head into
    # the node, minus the gains of the nodes inside a contracted cycle that the arc
    # enters; and the modifier of this arc
    double* rows
    int32_t* via
    # for each of 2 n + 1 nodes: gain, head and modifier of the arc into the node; the
    # node of the smallest cycle that contains the node (0: none); the row of the node
    # in `rows`; and NEW, ON_PATH or DONE
    double* gain
    int32_t* head
    int32_t* modifier
    int32_t* parent
    int32_t* slot
    int32_t* state
    int32_t* top        # (n + 1,): the outermost node that contains each word


cdef Py_ssize_t nonprojective_scratch(Py_ssize_t n) noexcept nogil:
    """Number of doubles of memory that `nonprojective_max` needs."""
    # two tables of doubles, one of integers; doubles and integers for each node
    return 3 * (n + 1) * row_length(n) + 8 * (n + 1)


cdef Contraction divide_memory(Py_ssize_t n, bint single_root,
                               double* scratch) noexcept nogil:
    """Divide memory of `nonprojective_scratch` doubles among a contraction's arrays."""
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
    """Begin a contraction, in which the root and each word are nodes of their own."""
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
    """Choose the best arc into a node; return False if there is none."""
    cdef Py_ssize_t slot = t.slot[node], head
    cdef const double* row = t.rows + slot * t.ld
    cdef double best = sks_max(t.n, row + 1)
    # with a single root, the arc from the root is chosen only if all others are -inf
    if row[0] >= best and not (t.single_root and best > -INFINITY):
        head, best = 0, row[0]
    else:
        head = 1 + sks_first(t.n, row + 1, best)
    t.gain[node], t.head[node] = best, <int32_t> head
    t.modifier[node] = t.via[slot * t.ld + head]
    return best > -INFINITY


cdef Py_ssize_t contract(Contraction* t, Py_ssize_t first) noexcept nogil:
    """Contract the cycle that contains a node; return the new node."""
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
    # arcs within the cycle are removed
    for head in range(1, t.n + 1):
        if t.parent[t.top[head]] == cycle:
            t.top[head] = <int32_t> cycle
            row[head] = -INFINITY
    t.slot[cycle] = <int32_t> slot
    return cycle


cdef bint best_tree(Contraction* t, int32_t* heads) noexcept nogil:
    """Find the best tree of `arcs`; return False if there is none.

    On return, state[node] is nonzero if an arc into a cycle around the node replaced
    the node's arc. Each other node has one arc of the tree.
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
    # an arc into a cycle replaces the arc of the node in the cycle that the arc enters
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
    """Find a best dependency tree of n words; return its score."""
    cdef Contraction contraction = divide_memory(n, single_root, scratch)
    load_rows(n, scores, 1.0, contraction.arcs)
    if best_tree(&contraction, heads):
        return tree_score(n, scores, heads)
    memset(heads, 0, n * sizeof(int32_t))
    return -INFINITY


# ---- the k best trees ----

cdef struct Search:
    # A place (T, j) is the set of the trees that have the heads of tree T for all words
    # before j, and another head for word j.
    Py_ssize_t n, cells
    const double* scores
    const double* arcs  # scores of arcs without the constraints of a place
    double* bounds      # (k, n) upper bounds of places, -inf for places without trees
    # (2 n + 1,), for the nodes that contain a word: the least slack of the arcs to the
    # word for which this node is the innermost that contains both ends; and the sum of
    # the gains of the smaller nodes that contain the word
    double* slack
    double* total
    int32_t* mark       # the word for which `slack` and `total` of a node hold
    int32_t* trees
    # of each tree: the tree and the word of the place in which the tree was found
    int32_t* origin
    int32_t* first


cdef Py_ssize_t nonprojective_topk_scratch(Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Number of doubles of memory that `nonprojective_topk` needs."""
    return 2 * nonprojective_scratch(n) + k * (n + 1) + 5 * (n + 1)


cdef void forbid(Contraction* t, Py_ssize_t head, Py_ssize_t modifier) noexcept nogil:
    """Forbid an arc."""
    t.arcs[modifier * t.ld + head] = -INFINITY


cdef void load_place(const Search* s, Contraction* t, Py_ssize_t tree,
                     Py_ssize_t word) noexcept nogil:
    """Restrict the arcs of a contraction to the trees of the place (tree, word)."""
    cdef const int32_t* heads = s.trees + tree * s.n
    cdef Py_ssize_t modifier, head
    memcpy(t.arcs, s.arcs, s.cells * sizeof(double))
    for modifier in range(1, word):
        for head in range(s.n + 1):
            if head != heads[modifier - 1]:
                forbid(t, head, modifier)
    forbid(t, heads[word - 1], word)
    # arcs into the word that earlier trees of the same place have used are forbidden,
    # too
    while tree > 0 and s.first[tree] == word:
        tree = s.origin[tree]
        forbid(t, s.trees[tree * s.n + word - 1], word)


cdef void add_slack(const Search* s, const Contraction* t, Py_ssize_t word,
                    Py_ssize_t current_head) noexcept nogil:
    """Compute the least slack of the arcs to a word, for each node around the word.

    An arc counts for the innermost node that contains both of its ends.
    """
    cdef const double* row = t.arcs + word * t.ld
    cdef Py_ssize_t node = word, head, top = word
    cdef double total = 0.0
    while node:
        s.mark[node], s.total[node] = <int32_t> word, total
        s.slack[node] = INFINITY
        total += t.gain[node]
        top, node = node, t.parent[node]
    s.mark[0], s.total[0], s.slack[0] = <int32_t> word, total, INFINITY
    # node 0 stands here for the whole graph, which contains both ends of any arc
    for head in range(s.n + 1):
        if head == current_head or row[head] == -INFINITY:
            continue
        # a second arc from the root is not allowed
        if head == 0 and t.single_root and t.head[top]:
            continue
        node = head
        while s.mark[node] != word:
            node = t.parent[node]
        s.slack[node] = min(s.slack[node], max(s.total[node] - row[head], 0.0))


cdef void add_places(Search* s, const Contraction* t, Py_ssize_t tree,
                     double value) noexcept nogil:
    """Write upper bounds of the places of a tree, from the tree's contraction."""
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
            # nodes whose arc was replaced have no arc of the tree
            if not t.state[node]:
                entered = t.modifier[node] - 1
                around = node
                while around:
                    around = t.parent[around]
                    bounds[entered] = max(bounds[entered], value - s.slack[around])
            node = t.parent[node]
    # the place in which the tree was found fixes the heads of earlier words
    for word in range(s.first[tree] - 1):
        bounds[word] = -INFINITY


cdef void sort_trees(Py_ssize_t n, Py_ssize_t count, double* values,
                     int32_t* trees) noexcept nogil:
    """Sort trees by value, as rounding errors may have changed their order."""
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
    """Find the k best dependency trees of n words; return the number of trees found."""
    cdef Contraction t = divide_memory(n, single_root, scratch)
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
        # the best tree is searched among all trees, later trees in one place
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
            # another place may have a higher bound
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


# ---- Python interface ----

def tree_memory(Py_ssize_t n):
    """Return the number of doubles of memory that `find_tree` needs."""
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
    """Return the number of doubles of memory that `find_topk` needs."""
    return nonprojective_topk_scratch(n, k)


def find_topk(bint single_root, scores, scratch, values, heads):
    """Write the best trees and their scores, and return their number."""
    cdef Py_ssize_t k = heads.shape[0], n = heads.shape[1], count
    cdef const double* arcs = const_doubles(scores)
    cdef double* memory = doubles(scratch)
    cdef double* tree_values = doubles(values)
    cdef int32_t* trees = int32s(heads)
    with nogil:
        count = nonprojective_topk(n, single_root, arcs, k, memory, tree_values, trees)
    return count
