"""Best labeling and k best labelings of forests in the memory of bound models.

Messages pass once, from children to parents; labels are then read from parents to
children. Ties are broken as in `max_product` and `max_product_topk`.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.trees._messages cimport (
    add_potts_message, add_turned_message, best_state, best_state_given,
    best_state_given_potts,
)
from sksstruct.inference.trees._topk cimport (
    Link, SubtreeLists, first_best, no_pairs, pairs_of_table,
)
from sksstruct.utils._simd cimport sks_maxplus


cdef inline const double* table_up(const FlatForest* forest,
                                   Py_ssize_t node) noexcept nogil:
    """Table of the edge between a node and its parent."""
    return forest.tables + forest.edge_up[node] * forest.step


cdef void send_up(const FlatForest* forest, double* best,
                  double* without) noexcept nogil:
    """Write, for each label of each node, the best score of the subtree below.

    Unless NULL, without gets a copy of the row of each node's parent, made before the
    node's message is added.
    """
    cdef Py_ssize_t n = forest.n_labels, ld = forest.ld, k, node
    cdef const double* row
    cdef double* out
    memcpy(best, forest.theta, forest.n_nodes * ld * sizeof(double))
    # children come before their parents, so that each row is complete when its message
    # is computed
    for k in range(forest.n_nodes - 1, -1, -1):
        node = forest.order[k]
        if forest.parent[node] < 0:
            continue
        row, out = best + node * ld, best + forest.parent[node] * ld
        if without != NULL:
            memcpy(without + node * ld, out, ld * sizeof(double))
        # the message is a maximum over the node's labels, whichever end of the edge the
        # node is
        if forest.potts:
            add_potts_message(n, row, table_up(forest, node)[0], out)
        elif is_forward(forest, node):
            sks_maxplus(n, ld, row, table_up(forest, node), out)
        else:
            add_turned_message(n, n, ld, row, table_up(forest, node), out)


cdef void max_product_flat(const FlatForest* forest, double* best,
                           int32_t* labels) noexcept nogil:
    """Find the best labeling of a forest.

    Parameters
    ----------
    forest : FlatForest*
        Scores and order of messages.
    best : double*
        Scratch: rows of all nodes.
    labels : int32_t*
        Output.
    """
    cdef Py_ssize_t ld = forest.ld, k, node, parent
    cdef const double* row
    cdef const double* scores
    send_up(forest, best, NULL)
    # each parent gets its label before its children
    for k in range(forest.n_nodes):
        node = forest.order[k]
        parent, row = forest.parent[node], best + node * ld
        if parent < 0:
            labels[node] = <int32_t> best_state(forest.n_labels, row)
            continue
        scores = table_up(forest, node)
        if forest.potts:
            labels[node] = <int32_t> best_state_given_potts(
                forest.n_labels, row, scores[0], labels[parent])
        elif is_forward(forest, node):
            labels[node] = <int32_t> best_state_given(
                forest.n_labels, row, scores + labels[parent], ld)
        else:
            labels[node] = <int32_t> best_state_given(
                forest.n_labels, row, scores + labels[parent] * ld, 1)


cdef void pairs_of_potts(const Link* link, Py_ssize_t state_of_parent,
                         Py_ssize_t first, Py_ssize_t stop,
                         double* out) noexcept nogil:
    """Add the score of equal labels to the entry of the parent's state."""
    if first <= state_of_parent < stop:
        out[state_of_parent - first] += link.table[0]


cdef Py_ssize_t topk_flat(const FlatForest* forest, double* memory, SubtreeLists lists,
                          Py_ssize_t k) except -1 nogil:
    """Find up to k best labelings of a forest, and store them in `lists`.

    Parameters
    ----------
    forest : FlatForest*
        Scores of at least one node, and order of messages.
    memory : double*
        2 * n_nodes rows, to which `lists` keeps pointers.
    lists : SubtreeLists
        Output; see `read`.
    k : int
        Number of labelings.

    Returns
    -------
    count : int
        Number of labelings that were found.
    """
    cdef Py_ssize_t ld = forest.ld, place, node
    cdef double* best = memory
    cdef double* without = memory + forest.n_nodes * ld
    cdef double total = 0.0
    cdef bint forward
    cdef int32_t* place_of_node
    cdef Link* link
    lists.begin(forest.n_nodes)
    send_up(forest, best, without)
    # place of each node, needed in this function only: `lists` uses `_places` from
    # `find` on
    place_of_node = lists._places
    for place in range(1, forest.n_nodes + 1):
        place_of_node[forest.order[place - 1]] = <int32_t> place
    for place in range(forest.n_nodes, 0, -1):
        node, link = forest.order[place - 1], lists.links + place
        link.variable, link.n_states = <int32_t> node, <int32_t> forest.n_labels
        link.best, link.without = best + node * ld, without + node * ld
        if forest.parent[node] < 0:
            link.parent, link.add_pairs = 0, no_pairs
            # the root of roots has one state, scored by the best labelings of the trees
            # so far
            without[node * ld] = total
            total += link.best[first_best(forest.n_labels, link.best)]
            continue
        link.parent = place_of_node[forest.parent[node]]
        link.add_pairs = pairs_of_potts if forest.potts else pairs_of_table
        link.table = table_up(forest, node)
        forward = is_forward(forest, node)
        link.step, link.parent_step = ld if forward else 1, 1 if forward else ld
    return lists.find(k)
