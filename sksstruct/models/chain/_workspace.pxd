from sksstruct.inference.chains._second_order cimport SecondOrder
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.tables._change cimport Change


cdef enum:
    # rows of weights after the emission rows; rows of transitions are last
    BIAS = 0
    START = 1
    END = 2
    TRANSITIONS = 3


cdef struct ChainScratch:
    # the weights in use
    const double* emission      # (n_features, ld)
    const double* tail          # (TRANSITIONS + n_labels, ld) rows after them
    const double* pair_weights  # (n_pair_weights,) of features on pairs of labels
    const double* triple_weights    # (n_triples,) of three labels
    # transitions that `evaluate` reads, which need no -inf as labelings are allowed:
    # the shared weights, or `tables`
    const double* transitions
    # potentials
    double* theta               # (max_size, ld) loss-augmented unary scores
    double* delta               # (max_size, ld) Viterbi's prefix scores
    double* table               # (n_labels, ld) transitions, -inf if forbidden
    double* tables              # (max_size - 1, n_labels, ld) one per edge
    const double* shared        # (n_labels, ld) transitions without features
    double constant             # the part of the loss that all labelings have
    # a change of mean parameters; cells belong to the weights of transitions, of
    # features on pairs of labels, and of triples
    Change change


cdef class ChainWorkspace(Workspace):
    cdef Py_ssize_t _n_features, _n_labels, _ld, _n_pair_weights, _n_triples
    cdef bint _paired
    # the decoder of chains with weights of triples, else None
    cdef SecondOrder decoder
    cdef ChainScratch _scratch

    cdef int _read_tail(self, const double* tail, const double* pair_weights) except -1
