from libc.stdint cimport int64_t

from sksstruct.models.protocols._factors cimport FactorModel, Outcome
from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes,
)
from sksstruct.solvers.dual_decomposition._residuals cimport Residuals
from sksstruct.utils._arena cimport Arena


cdef struct Scratch:
    # Workspace of one visit. Each array has an entry for each active label of the
    # visited variable, or for each active outcome of the visited pair or clique, and
    # spare entries, as a visit may activate one more label or outcome.
    Py_ssize_t capacity
    # the allocation that all arrays below share
    double* memory
    # for a variable, the gains of its labels; for a pair or a clique, the scores of its
    # outcomes without messages
    double* score
    # |phi_f|^2 of each outcome of a pair
    double* norm
    # q + gain / Q: the point that is projected onto the simplex
    double* target
    # q before the visit
    double* previous
    # change of q, or the change of weights that the change of q causes
    double* change
    # messages -rho m_vf to each active label at the two ends of a pair
    double* message[2]


cdef class GDMMState:
    cdef readonly FactorModel model
    cdef readonly double alpha, rho, infeasibility, primal_residual, dual_residual
    cdef readonly int64_t calls
    cdef public double ignore
    # active labels of each variable, and active outcomes of each pair
    cdef ActiveLabels* _labels
    cdef ActiveOutcomes* _outcomes
    cdef Scratch _scratch
    cdef Arena _arena
    cdef readonly double block_gap, residual_square
    # Sum of degree(v) |change of q_v|^2 over variables v in the last pass, where
    # degree(v) counts the pairs and cliques of v. If a visit makes several steps, only
    # the change of its last step counts.
    cdef double _square_moved
    # for each variable, then each pair, then each clique: whether the factor is in the
    # set A_i of factors that Algorithm 3 visits
    cdef char* _active_factors
    # whether visits call the oracles, which find inactive outcomes
    cdef bint _ask_oracles
    # number of ends (a factor and one of its variables) of all pairs and cliques
    cdef Py_ssize_t _n_ends

    cdef int _reserve(self, Py_ssize_t n) except -1 nogil
    cdef int _visit_example(self, Py_ssize_t i, double C, const double[::1] parts,
                            bint linear, Py_ssize_t inner_steps,
                            double eta) except -1 nogil
    cdef int _visit_cliques(self, Py_ssize_t i, double C,
                            bint greedy) except -1 nogil
    cdef Py_ssize_t _best_clique(self, Py_ssize_t i, double C,
                                 double* most) except -2 nogil
    cdef int _move_multipliers(self, Py_ssize_t i, double eta,
                               Residuals* sums) except -1 nogil
    cdef int _add_factor(self, Py_ssize_t i, double C, const double[::1] parts,
                         bint linear) except -1 nogil
    cdef double _variable_curvature(self, Py_ssize_t variable,
                                    double C) noexcept nogil
    cdef int _variable_gains(self, Py_ssize_t variable, double* gain) except -1 nogil
    cdef double _variable_progress(self, Py_ssize_t variable, double C,
                                   double part) except -1.0 nogil
    cdef double _variable_targets(self, Py_ssize_t variable, double C, double part,
                                  double* threshold) except? -1.0 nogil
    cdef int _visit_variable(self, Py_ssize_t variable, double C,
                             double part) except -1 nogil
    cdef int _load_pair(self, Py_ssize_t pair) except -1 nogil
    cdef int _find_pair(self, Py_ssize_t pair, bint linear, double floor,
                        Outcome* outcome) except -1 nogil
    cdef int _activate_pair(self, Py_ssize_t pair,
                            const Outcome* outcome) except -1 nogil
    cdef double _pair_curvature(self, const ActiveOutcomes* outcomes,
                                double C) noexcept nogil
    cdef double _pair_progress(self, Py_ssize_t pair, double C,
                               bint linear) except -1.0 nogil
    cdef double _extend_pair(self, Py_ssize_t pair, double C,
                             bint linear) except -1.0 nogil
    cdef int _store_pair(self, Py_ssize_t pair, double C) except -1 nogil
    cdef int _visit_pair(self, Py_ssize_t pair, double C,
                         bint linear) except -1 nogil


cdef inline double pair_gain(const Scratch* scratch, const ActiveOutcomes* outcomes,
                             Py_ssize_t k) noexcept nogil:
    """Return the gain of an active outcome of the loaded pair: score plus messages."""
    return (scratch.score[k] + scratch.message[0][outcomes.ends[0].place[k]]
            + scratch.message[1][outcomes.ends[1].place[k]])


cdef inline double progress_of(double gain, double curvature) noexcept nogil:
    """Return the decrease (18) of the objective if q of the observed outcome decreases.

    The probability moves to the best outcome. `gain` is the gain of the best outcome
    minus that of the observed outcome, and `curvature` is Q.
    """
    # The change d = step (e_y - e_truth) with |d|^2 = 2 step^2 lowers the objective by
    # step * gain - Q/2 |d|^2, which is largest at this step.
    cdef double step = gain / (2.0 * curvature)
    # a step of 1 moves all of the probability
    step = 1.0 if step > 1.0 else step
    return step * (gain - step * curvature)
