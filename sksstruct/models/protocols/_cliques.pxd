from libc.stdint cimport int32_t


cdef class Cliques:
    cdef readonly Py_ssize_t n_labels, n_cliques, most_nodes, most_outcomes
    cdef readonly object first_clique, scopes, first_node, first_weight, factors
    cdef readonly object weights
    # example i has the cliques first_clique[i] to first_clique[i + 1] - 1; the nodes of
    # clique c begin at scopes[first_node[c]], its table at weights[first_weight[c]]
    cdef const Py_ssize_t[::1] _first_clique, _scope, _first_node, _first_weight
    # factor of the scores of each clique
    cdef const double[::1] _factor
    cdef double[::1] _weights
    # sums of messages to all nodes but the last, for all labelings of these nodes
    cdef double[::1] _prefix

    cdef double best(self, Py_ssize_t clique, const double* messages,
                     Py_ssize_t* entry) noexcept nogil


cdef inline void labels_of_entry(Py_ssize_t entry, Py_ssize_t n_labels,
                                 Py_ssize_t order, int32_t* labels) noexcept nogil:
    """Write the labels of a clique's nodes in outcome number `entry`.

    The label of the last node changes fastest with `entry`.
    """
    cdef Py_ssize_t j
    for j in range(order - 1, -1, -1):
        labels[j] = <int32_t> (entry % n_labels)
        entry = entry // n_labels
