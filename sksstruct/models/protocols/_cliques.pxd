from libc.stdint cimport int32_t


cdef class Cliques:
    cdef readonly Py_ssize_t n_labels, n_cliques, most_nodes, most_outcomes
    cdef readonly object first_clique, scopes, first_node, first_weight, factors
    cdef readonly object weights
    # the cliques of example i are those from first[i] to first[i + 1] - 1; the nodes of
    # each begin at `first_node`, its table at `first_weight`
    cdef const Py_ssize_t[::1] _first_clique, _scope, _first_node, _first_weight
    # what the scores of each are multiplied by
    cdef const double[::1] _factor
    cdef double[::1] _weights
    # scores of the labels of all nodes but the last
    cdef double[::1] _prefix

    cdef double best(self, Py_ssize_t clique, const double* messages,
                     Py_ssize_t* entry) noexcept nogil


cdef inline void labels_of_entry(Py_ssize_t entry, Py_ssize_t n_labels,
                                 Py_ssize_t order, int32_t* labels) noexcept nogil:
    """Write the labels of the nodes of a clique; those of the last change fastest."""
    cdef Py_ssize_t j
    for j in range(order - 1, -1, -1):
        labels[j] = <int32_t> (entry % n_labels)
        entry = entry // n_labels
