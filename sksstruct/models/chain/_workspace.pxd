from sksstruct.inference.chains._second_order cimport SecondOrder
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.tables._change cimport Change


cdef enum:
    # indices of the rows of the tail, the weights after the emission rows; TRANSITIONS
    # is the index of the first of n_labels rows
    BIAS = 0
    START = 1
    END = 2
    TRANSITIONS = 3


cdef struct ChainScratch:
    # addresses of the weights that potentials are formed from
    const double* emission      # (n_features, ld)
    const double* tail          # (TRANSITIONS + n_labels, ld) after the emission rows
    const double* pair_weights  # (n_pair_weights,) weights of features on pairs
    const double* triple_weights    # (n_triples,) weights of triples of labels
    # transitions that `evaluate` reads: the shared weights, or `tables`; the shared
    # weights need no -inf, as `evaluate` is called for allowed labelings only
    const double* transitions
    # potentials of one sequence
    double* theta               # (max_size, ld) loss-augmented unary scores
    double* delta               # (max_size, ld) Viterbi's prefix scores
    double* table               # (n_labels, ld) transitions, -inf if forbidden
    double* tables              # (max_size - 1, n_labels, ld) transitions of each edge
    const double* shared        # (n_labels, ld) transitions without features
    double constant             # term of the loss that is the same for all labelings
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
