from libc.stdint cimport int32_t

from sksstruct.models.protocols._cliques cimport Cliques
from sksstruct.solvers.dual_decomposition._state cimport GDMMState


cdef struct CliqueOutcomes:
    # active outcomes of a clique f: the observed one first; `deactivate` removes
    # outcomes with q = 0
    int32_t size, capacity
    # number of nodes of the clique, and number of their labelings
    int32_t order, n_outcomes
    # for each active outcome: its entry in the clique's table of weights
    int32_t* entry
    # for each active outcome: the labels of all nodes, (size, order)
    int32_t* labels
    # for each active outcome: its probability q_f
    double* q
    # marginal M_vf q_f and scaled multiplier u_vf of each label of each node v, (order,
    # n_labels)
    double* marginal
    double* u


cdef class CliqueGDMMState(GDMMState):
    cdef readonly Cliques cliques
    cdef CliqueOutcomes* _cliques
    # messages -rho m_vf to each label of each node of the clique that a visit has
    # loaded, (order, n_labels)
    cdef double[::1] _message

    cdef int _start_clique(self, Py_ssize_t clique) except -1
    cdef int _activate(self, CliqueOutcomes* outcomes, Py_ssize_t entry) except -1 nogil
    cdef int _load_clique(self, Py_ssize_t clique) except -1 nogil
    cdef double _clique_curvature(self, Py_ssize_t clique, double C) noexcept nogil
    cdef double _clique_gain(self, const CliqueOutcomes* outcomes,
                             Py_ssize_t k) noexcept nogil
    cdef double _extend_clique(self, Py_ssize_t clique, double C) except -1.0 nogil
    cdef double _step_clique(self, Py_ssize_t clique, double C,
                             double curvature) noexcept nogil
    cdef void _store_clique(self, Py_ssize_t clique, double C) noexcept nogil
    cdef int _visit_clique(self, Py_ssize_t clique, double C) except -1 nogil
    cdef char* _is_active(self, Py_ssize_t clique) noexcept nogil
    cdef double _clique_progress(self, Py_ssize_t clique, double C) except -1.0 nogil
    cdef double _node_q(self, Py_ssize_t node, Py_ssize_t label) noexcept nogil


cdef inline Py_ssize_t place_of(Py_ssize_t label, Py_ssize_t y_true) noexcept nogil:
    """Return the place of a label in the list of a variable of a clique.

    All labels are active: first the observed label, then all others in ascending order.
    """
    if label == y_true:
        return 0
    return label + 1 if label < y_true else label
