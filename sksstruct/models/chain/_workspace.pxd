from libc.stdint cimport int32_t

from sksstruct.inference.chains._second_order cimport SecondOrder
from sksstruct.models.protocols._bound_model cimport Workspace


cdef enum:
    # rows of weights after the emission rows; those of transitions come last
    BIAS = 0
    START = 1
    END = 2
    TRANSITIONS = 3


cdef struct ChainScratch:
    # the weights that potentials are formed from
    const double* emission      # (n_features, ld)
    const double* tail          # (TRANSITIONS + n_labels, ld) the rows after them
    const double* pair_weights  # (n_pair_weights,) of features on pairs of labels
    const double* triple_weights    # (n_triples,) of three labels
    # what evaluates labelings, which do nothing that is forbidden: the transitions
    # themselves, or `tables`
    const double* transitions
    # potentials
    double* theta               # (max_size, ld) loss-augmented unary scores
    double* delta               # (max_size, ld) Viterbi's prefix scores
    double* table               # (n_labels, ld) transitions, -inf the forbidden ones
    double* tables              # (max_size - 1, n_labels, ld) those of each position
    const double* shared        # (n_labels, ld) what these are without features
    double constant             # the part of the loss that no labeling changes
    # a change of mean parameters
    double* node_change         # (max_size, ld) d
    # d_e, summed over positions, (n_labels, ld), and what changes the weights of
    # features on pairs of labels, (n_pair_weights,), and of triples, (n_triples,)
    double* edge_change
    # rows of d that are not zero, once they were looked for
    int32_t* changed_rows
    Py_ssize_t n_changed_rows
    bint scanned
    # entries of d_e that were written, each once
    int32_t* changed_edges
    char* edge_changed          # (as many,)
    Py_ssize_t n_changed_edges
    # for products with features
    double* bias                # (ld,)
    double* spread              # (n_features + 1,) one feature row, spread out
    double* product             # (n_features, ld) F' d, for sequences without a matrix


cdef inline void add_edge(ChainScratch* ws, Py_ssize_t edge,
                          double change) noexcept nogil:
    """Add to d_e at an entry, and note that it changed."""
    ws.edge_change[edge] += change
    if not ws.edge_changed[edge]:
        ws.edge_changed[edge] = 1
        ws.changed_edges[ws.n_changed_edges] = <int32_t> edge
        ws.n_changed_edges += 1


cdef inline void clear_edges(ChainScratch* ws) noexcept nogil:
    """d_e = 0"""
    cdef Py_ssize_t k
    for k in range(ws.n_changed_edges):
        ws.edge_change[ws.changed_edges[k]] = 0.0
        ws.edge_changed[ws.changed_edges[k]] = 0
    ws.n_changed_edges = 0


cdef inline double without_rounding(double change, double tiny) noexcept nogil:
    """Return a change, or zero where it is smaller than tiny."""
    # a product, and not a branch; what is no number stays that
    cdef bint is_tiny = change * change < tiny * tiny
    return change * (1 - is_tiny)


cdef inline void set_mean(
    ChainScratch* ws, Py_ssize_t ld, Py_ssize_t edges, double tiny, Py_ssize_t n_keys,
    const int32_t* keys, const double* values, double coef
) noexcept nogil:
    """d = coef mean where d = 0, listing rows and edges on the way.

    Keys ascend; those from `edges` on are of edges.
    """
    cdef double* nodes = ws.node_change
    cdef double* table = ws.edge_change - edges
    cdef char* listed = ws.edge_changed - edges
    cdef int32_t* rows = ws.changed_rows
    cdef int32_t* changed = ws.changed_edges
    cdef Py_ssize_t n_rows = 0, n_edges = 0, k = 0, row, last = -1
    cdef double rows_of_key = 1.0 / ld, change
    cdef bint changes
    # No branches, which could not be foretold: what the list has no use for is written
    # beyond its end.
    while k < n_keys and keys[k] < edges:
        change = without_rounding(coef * values[k], tiny)
        changes = change != 0.0
        nodes[keys[k]] = change
        # a multiplication is faster than a division; the half keeps it exact
        row = <Py_ssize_t> ((keys[k] + 0.5) * rows_of_key)
        rows[n_rows] = <int32_t> row
        n_rows += changes & (row != last)
        last += changes * (row - last)
        k += 1
    for k in range(k, n_keys):
        table[keys[k]], listed[keys[k]] = coef * values[k], 1
        changed[n_edges] = <int32_t> (keys[k] - edges)
        n_edges += 1
    ws.n_changed_rows, ws.n_changed_edges = n_rows, n_edges
    ws.scanned = True


cdef class ChainWorkspace(Workspace):
    cdef Py_ssize_t _n_features, _n_labels, _ld, _n_pair_weights, _n_triples
    cdef bint _paired
    # of chains with weights of triples
    cdef SecondOrder decoder
    cdef ChainScratch _scratch

    cdef int _prepare_changes(self, Py_ssize_t max_size, bint products) except -1
    cdef int _read_tail(self, const double* tail, const double* pair_weights) except -1
