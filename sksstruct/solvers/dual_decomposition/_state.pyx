"""Blocks of the augmented Lagrangian of dual decomposed training, and its multipliers.

I. Yen et al. (2016). An example i of weight p_i has variables v with observed labels
y_true, and pairs f of variables. With

    q_v, q_f    distributions over the labels y of a variable, the outcomes (a, b) of a
                pair; M_vf q_f is the marginal of q_f at its end v
    C_i         p_i / alpha; the paper's dual variables (11) are
                alpha_f = C_i (e_truth - q_f), and the constraints are M_vf q_f = q_v
    rho, u_vf   weight of the quadratic terms, and scaled multipliers:
                the paper's lambda_vf = rho u_vf, in units of p_i
    eta         step of the multipliers, in units of rho

training minimizes the augmented Lagrangian (12), which is here

    alpha/2 |w|^2 - sum_i p_i sum_v <loss_v, q_v>
      + sum_i p_i rho/2 sum_(f, v) |M_vf q_f - q_v + u_vf|^2

over the simplices, with w(q) as in `models/protocols/_factors.pyx` (10). The messages
are m_vf = M_vf q_f - q_v + u_vf. The gain of an outcome, minus the gradient entry
divided by p_i, is by (26)

    variable:  score(y) + loss(y) + rho sum_f m_vf(y)
    pair:      score(a, b) - rho (m_vf(a) + m_v'f(b))

Only active outcomes are stored (`_active_sets.pyx`), at first the observed ones. A
visit of a factor asks the factorwise oracle for an outcome whose q would become
positive (15), activates this outcome, and solves (25): q + gains / Q is projected onto
the simplex, where Q bounds the curvature. For a variable Q = C_i |phi_v|^2 + rho deg(v)
is the curvature in every direction, so that one projection is the exact minimum; for a
pair Q = C_i |phi_f|^2 + rho times `largest_overlap`. After a pass u += eta (M q_f -
q_v), which is (13) with a step of rho eta.
"""

from libc.math cimport INFINITY, fabs, isnan
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.models.protocols._factors cimport FactorModel, Messages, Outcome
from sksstruct.projections._simplex cimport threshold_by_dropping
from sksstruct.solvers.dual_decomposition._active_sets cimport (
    ActiveLabels, ActiveOutcomes, PairEnd, activate_label, activate_outcome,
    deactivate_outcomes, fit_ends, is_active, largest_overlap, start_pair,
    start_variable,
)
from sksstruct.solvers.dual_decomposition._residuals cimport (
    Residuals, move_multipliers, relative_norm,
)
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._clock cimport Clock
from sksstruct.utils._memory cimport resize

# Largest number of projections in a visit of a pair. A projection does not reach the
# minimum over q_f, as Q is an upper bound of the curvature. The exact minimum is not
# needed, as later visits of other factors change the messages.
cdef int INNER_STEPS = 4
# A visit of a pair ends once a projection changes no probability by more than this.
cdef double LEAST_CHANGE = 1e-3
# Least curvature of a variable, in units of C_i: a variable without features and pairs
# has no curvature, and all of its probability moves to the best label.
cdef double LEAST_CURVATURE = 1e-9
# Number of arrays in `Scratch`.
cdef int N_ARRAYS = 7


cdef class GDMMState:
    """Distributions and multipliers of GDMM on a model of factors, and its passes.

    Parameters
    ----------
    model : FactorModel
        The model; its weights are written.
    alpha : float
        Regularization.
    rho : float
        Weight of the quadratic terms.

    Attributes
    ----------
    ignore : float
        An outcome stays inactive unless its gain exceeds the gain at which its q would
        become positive by more than this fraction of the cost of a wrong label.
    block_gap : float
        Gain of the best outcome of a factor minus the mean gain under its distribution,
        weighted by p_i / alpha and summed over the visits of the last pass. Zero at the
        minimum. `AwayGDMMState` weights by p_i, and sums over factors.
    infeasibility : float
        Mean total variation distance between the marginals of pairs and cliques and the
        distributions of their variables, at the last update of the multipliers.
    primal_residual, dual_residual : float
        Norm of M q_f - q_v relative to that of q, and norm of the change of q_v in the
        last pass relative to that of u.
    residual_square : float
        Sum of |M q_f - q_v|^2 at the last update of the multipliers.
    calls : int
        Number of calls of factorwise oracles.
    """

    def __cinit__(self, FactorModel model, double alpha, double rho):
        cdef Py_ssize_t variable, pair, n = model.n_variables, m = model.n_pairs
        cdef Py_ssize_t n_factors
        cdef int side
        self.model, self.alpha, self.rho = model, alpha, rho
        self._ask_oracles, self._n_ends = True, 2 * m
        # all lists share one arena: data of the same visit lie close together
        self._arena = Arena()
        self._labels = <ActiveLabels*> self._arena.take(
            max(n, 1) * sizeof(ActiveLabels))
        self._outcomes = <ActiveOutcomes*> self._arena.take(
            max(m, 1) * sizeof(ActiveOutcomes))
        n_factors = n + m + (0 if model.cliques is None else model.cliques.n_cliques)
        self._active_factors = <char*> self._arena.take(n_factors + 1)
        memset(self._labels, 0, n * sizeof(ActiveLabels))
        memset(self._outcomes, 0, m * sizeof(ActiveOutcomes))
        memset(self._active_factors, 0, n_factors + 1)
        # `_reserve` enlarges the scratch later for larger factors
        self._reserve(16)
        # degrees are counted first, as `start_variable` sets `total` to the degree;
        # pairs are started last, as they point to the labels of variables
        for pair in range(m):
            for side in range(2):
                self._labels[model._pairs[pair, side]].degree += 1
        for variable in range(n):
            start_variable(self._arena, &self._labels[variable],
                           model._y_true[variable])
        for pair in range(m):
            start_pair(self._arena, model, self._labels, pair, &self._outcomes[pair])

    def __dealloc__(self):
        free(self._scratch.memory)

    cdef int _reserve(self, Py_ssize_t n) except -1 nogil:
        """Give the scratch a capacity of n outcomes; its contents may be lost."""
        cdef Scratch* scratch = &self._scratch
        cdef Py_ssize_t capacity
        if n <= scratch.capacity:
            return 0
        # the capacity is twice the need, as later factors may be slightly larger
        capacity = 2 * n
        # the offsets of all arrays change, so that their contents are lost
        resize(<void**> &scratch.memory, N_ARRAYS * capacity * sizeof(double))
        scratch.score = scratch.memory
        scratch.norm = scratch.score + capacity
        scratch.target = scratch.norm + capacity
        scratch.previous = scratch.target + capacity
        scratch.change = scratch.previous + capacity
        scratch.message[0] = scratch.change + capacity
        scratch.message[1] = scratch.message[0] + capacity
        scratch.capacity = capacity
        return 0

    # ---- passes ----

    def visit(self, const Py_ssize_t[::1] order, const double[::1] parts, bint linear,
              bint greedy=False, *, bint oracles=True, Py_ssize_t inner_steps=0,
              double eta=1.0):
        """Make one pass over examples by Algorithm 4, or by Algorithm 3 if `greedy`.

        Parameters
        ----------
        order : ndarray of shape (n,), intp
            The examples in the order in which they are visited.
        parts : ndarray of shape (n_variables,)
            The part of the labels that the oracle of each variable reads, as a number
            in [0, 1); negative numbers stand for all labels.
        linear : bool
            Whether oracles read every outcome.
        greedy : bool
            Whether to visit only active factors; each pass activates one more factor of
            each example (Algorithm 3).
        oracles : bool
            Whether visits call oracles, so that outcomes may become active.
        inner_steps : int
            Number of steps for each factor of an example, beyond the one step of
            Algorithm 4. Used unless `greedy`.
        eta : float
            Step of the multipliers of the example before each further step, in units of
            rho.
        """
        cdef Py_ssize_t k, i, variable, pair, n = self.model.n_variables
        cdef double C
        cdef Clock clock = Clock()
        self._ask_oracles = oracles
        self._square_moved = self.block_gap = 0.0
        with nogil:
            # the factors of an example are visited together, as they exchange messages
            for k in range(order.shape[0]):
                if clock.late():
                    break
                i = order[k]
                C = self.model._example_weights[i] / self.alpha
                if greedy:
                    self._add_factor(i, C, parts, linear)
                else:
                    self._visit_example(i, C, parts, linear, inner_steps, eta)
                    continue
                for variable in range(self.model._first_variable[i],
                                      self.model._first_variable[i + 1]):
                    if self._active_factors[variable]:
                        self._visit_variable(variable, C, parts[variable])
                for pair in range(self.model._first_pair[i],
                                  self.model._first_pair[i + 1]):
                    if self._active_factors[n + pair]:
                        self._visit_pair(pair, C, linear)
                self._visit_cliques(i, C, greedy)
        clock.check()

    cdef int _visit_example(self, Py_ssize_t i, double C, const double[::1] parts,
                            bint linear, Py_ssize_t inner_steps,
                            double eta) except -1 nogil:
        """Visit each factor of an example, and again `inner_steps` times.

        Only the first visits may call oracles.
        """
        cdef Py_ssize_t variable, pair, step
        cdef bint ask_oracles = self._ask_oracles
        cdef double square_moved_before = self._square_moved
        cdef Residuals ignored
        memset(&ignored, 0, sizeof(Residuals))
        for step in range(inner_steps + 1):
            if step:
                self._move_multipliers(i, eta, &ignored)
            # the dual residual has the change of q_v in the last step only: the
            # multipliers were updated after all earlier steps
            self._square_moved = square_moved_before
            for variable in range(self.model._first_variable[i],
                                  self.model._first_variable[i + 1]):
                self._visit_variable(variable, C, parts[variable])
            for pair in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
                self._visit_pair(pair, C, linear)
            self._visit_cliques(i, C, False)
            self._ask_oracles = False
        self._ask_oracles = ask_oracles
        return 0

    cdef int _visit_cliques(self, Py_ssize_t i, double C,
                            bint greedy) except -1 nogil:
        """Visit the cliques of an example; overridden by classes that have cliques."""
        return 0

    cdef Py_ssize_t _best_clique(self, Py_ssize_t i, double C,
                                 double* most_progress) except -2 nogil:
        """Return the inactive clique whose visit would lower the objective most.

        Its decrease (18) is written to `most_progress` if larger than the present
        value; otherwise -1 is returned.
        """
        return -1

    cdef int _add_factor(self, Py_ssize_t i, double C, const double[::1] parts,
                         bint linear) except -1 nogil:
        """Add to A_i the factor of example i that would most lower the objective."""
        cdef Py_ssize_t n = self.model.n_variables, variable, pair, best = -1, clique
        # no factor is added if none makes progress
        cdef double progress, most_progress = 0.0
        for variable in range(self.model._first_variable[i],
                              self.model._first_variable[i + 1]):
            if not self._active_factors[variable]:
                progress = self._variable_progress(variable, C, parts[variable])
                if progress > most_progress:
                    best, most_progress = variable, progress
        for pair in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
            if not self._active_factors[n + pair]:
                progress = self._pair_progress(pair, C, linear)
                if progress > most_progress:
                    best, most_progress = n + pair, progress
        clique = self._best_clique(i, C, &most_progress)
        if clique >= 0:
            best = n + self.model.n_pairs + clique
        if best >= 0:
            self._active_factors[best] = 1
        return 0

    # ---- variables ----

    cdef double _variable_curvature(self, Py_ssize_t variable,
                                    double C) noexcept nogil:
        """Return the curvature Q of a variable, which all of its labels share."""
        cdef double least = LEAST_CURVATURE * C
        cdef double curvature = (C * self.model.label_norm(variable)
                                 + self.rho * self._labels[variable].degree)
        return curvature if curvature > least else least

    cdef int _variable_gains(self, Py_ssize_t variable, double* gain) except -1 nogil:
        """Write the gains of the active labels of a variable to `gain`."""
        cdef ActiveLabels* labels = &self._labels[variable]
        cdef Py_ssize_t k
        # In visits without oracle calls, stored scores of labels with q = 0 are used,
        # although they may be outdated: most of these labels keep q = 0 anyway.
        for k in range(labels.size):
            if self._ask_oracles or labels.q[k] > 0.0 or isnan(labels.score[k]):
                self.model.label_scores(variable, 1, &labels.label[k], &labels.score[k])
            gain[k] = labels.score[k]
            # scores of the model do not include the loss
            if labels.label[k] != self.model._y_true[variable]:
                gain[k] += self.model._cost[variable]
            # `total` sums M q_f + u over pairs and cliques; each of their messages also
            # contains -q_v
            gain[k] += self.rho * (labels.total[k] - labels.degree * labels.q[k])
        return 0

    cdef double _variable_progress(self, Py_ssize_t variable, double C,
                                   double part) except -1.0 nogil:
        """Estimate how far a visit of a variable would lower the objective (18)."""
        cdef ActiveLabels* labels = &self._labels[variable]
        cdef Py_ssize_t k
        cdef double best
        cdef double* gain
        cdef int32_t label = 0
        # this method activates no label; visits do, once the variable is in A_i
        self._reserve(labels.size + 2)
        gain = self._scratch.score
        self._variable_gains(variable, gain)
        best = gain[0]
        for k in range(1, labels.size):
            best = gain[k] if gain[k] > best else best
        self.calls += 1
        # `find_label` changes `best` only if there is a label with a larger gain
        self.model.find_label(variable, part, labels.size, labels.label, best, &label,
                              &best)
        # a factor that was never visited has q = 1 for its observed label, at place 0
        return progress_of(best - gain[0], self._variable_curvature(variable, C))

    cdef double _variable_targets(self, Py_ssize_t variable, double C, double part,
                                  double* threshold) except? -1.0 nogil:
        """Write q + gain / Q of the active labels, after activating at most one label.

        A label is activated if its q would become positive. Labels with a target below
        the threshold get q = 0. Returns the gain of the best label minus the mean gain
        under q.
        """
        cdef ActiveLabels* labels = &self._labels[variable]
        cdef Scratch* scratch = &self._scratch
        cdef Py_ssize_t n = labels.size, k
        cdef double curvature = self._variable_curvature(variable, C)
        cdef double floor, value = 0.0, best = -INFINITY, mean = 0.0
        cdef int32_t label = 0
        self._reserve(n + 2)
        self._variable_gains(variable, scratch.score)
        for k in range(n):
            best = scratch.score[k] if scratch.score[k] > best else best
            mean += labels.q[k] * scratch.score[k]
            scratch.target[k] = labels.q[k] + scratch.score[k] / curvature
        threshold[0] = threshold_by_dropping(n, scratch.target)
        # an inactive label gets q > 0 if its gain / Q is above the threshold
        floor = threshold[0] * curvature + self.ignore * self.model._cost[variable]
        self.calls += self._ask_oracles
        if self._ask_oracles and self.model.find_label(
                variable, part, n, labels.label, floor, &label, &value):
            activate_label(self._arena, labels, label)
            # `value` is above `floor`, but the gain of an active label may be larger
            best = value if value > best else best
            # the new label has q = 0
            scratch.target[n] = value / curvature
            threshold[0] = threshold_by_dropping(n + 1, scratch.target)
        return best - mean

    cdef int _visit_variable(self, Py_ssize_t variable, double C,
                             double part) except -1 nogil:
        """Minimize the augmented Lagrangian over q_v of a variable, problem (25).

        At most one label is activated before.
        """
        cdef ActiveLabels* labels = &self._labels[variable]
        cdef double* target
        cdef double* change
        cdef double threshold = 0.0, q, change_of_q
        cdef Py_ssize_t k
        self.block_gap += C * self._variable_targets(variable, C, part, &threshold)
        # the pointers are read only now, as `_variable_targets` may enlarge the scratch
        target, change = self._scratch.target, self._scratch.change
        for k in range(labels.size):
            q = target[k] - threshold
            q = q if q > 0.0 else 0.0
            change_of_q = q - labels.q[k]
            # the residual M q_f - q_v of each pair of the variable changes by
            # -change_of_q
            self._square_moved += labels.degree * (change_of_q * change_of_q)
            # by (10), the weights of label k contain -C q[k] times the features of the
            # variable
            change[k] = -C * change_of_q
            labels.q[k] = q
        self.model.add_labels(variable, labels.size, labels.label, change)
        return 0

    # ---- pairs ----

    cdef int _load_pair(self, Py_ssize_t pair) except -1 nogil:
        """Write the messages, scores and squared norms of a pair to the scratch.

        The scratch has space for one more outcome, and one more label at each end.
        """
        cdef ActiveOutcomes* outcomes = &self._outcomes[pair]
        cdef ActiveLabels* labels
        cdef PairEnd* end
        cdef Py_ssize_t k
        cdef int side
        fit_ends(self._arena, outcomes)
        # the scratch is enlarged before it is filled, as growing discards its contents
        self._reserve(outcomes.size + 2)
        for side in range(2):
            self._reserve(outcomes.ends[side].labels.size + 2)
        for side in range(2):
            end = &outcomes.ends[side]
            labels = end.labels
            # labels in no active outcome of this pair get messages, too, as the oracle
            # searches all outcomes
            for k in range(labels.size):
                self._scratch.message[side][k] = -self.rho * (
                    end.marginal[k] + end.u[k] - labels.q[k])
        return self.model.pair_scores(pair, outcomes.size, outcomes.entry,
                                      self._scratch.score, self._scratch.norm)

    cdef int _find_pair(self, Py_ssize_t pair, bint linear, double floor,
                        Outcome* outcome) except -1 nogil:
        """Call the oracle of the loaded pair for an outcome with a gain above floor.

        Returns whether there is such an outcome, which is written to `outcome`.
        """
        cdef Messages messages[2]
        cdef ActiveLabels* labels
        cdef int side
        # inactive labels have no messages, as their q_v, marginal and u are zero
        for side in range(2):
            labels = self._outcomes[pair].ends[side].labels
            messages[side].size, messages[side].labels = labels.size, labels.label
            messages[side].values = self._scratch.message[side]
        self.calls += 1
        return self.model.find_pair(pair, linear, messages, floor, outcome)

    cdef int _activate_pair(self, Py_ssize_t pair,
                            const Outcome* outcome) except -1 nogil:
        """Activate an outcome and its labels; return whether this outcome was new."""
        cdef ActiveOutcomes* outcomes = &self._outcomes[pair]
        cdef ActiveLabels* first = outcomes.ends[0].labels
        cdef ActiveLabels* second = outcomes.ends[1].labels
        cdef Py_ssize_t entry = self.model.entry(
            pair, outcome.labels[0], outcome.labels[1])
        # by rounding, the oracle may compute a gain above the floor for an outcome that
        # is active already
        if is_active(outcomes, entry):
            return 0
        # messages to labels that are new to the variables are zero
        self._scratch.message[0][first.size] = 0.0
        self._scratch.message[1][second.size] = 0.0
        activate_outcome(self._arena, outcomes, <int32_t> entry,
                         activate_label(self._arena, first, outcome.labels[0]),
                         activate_label(self._arena, second, outcome.labels[1]))
        fit_ends(self._arena, outcomes)
        return 1

    cdef double _pair_curvature(self, const ActiveOutcomes* outcomes,
                                double C) noexcept nogil:
        """Return Q, a bound of the curvature over the loaded pair's active outcomes."""
        cdef double norm = 0.0
        cdef Py_ssize_t k
        for k in range(outcomes.size):
            norm = self._scratch.norm[k] if self._scratch.norm[k] > norm else norm
        return C * norm + self.rho * largest_overlap(outcomes)

    cdef double _pair_progress(self, Py_ssize_t pair, double C,
                               bint linear) except -1.0 nogil:
        """Estimate how far a visit of a pair would lower the objective (18)."""
        cdef Outcome outcome
        cdef double observed
        self._load_pair(pair)
        # a pair that was never visited has q = 1 for its observed outcome
        observed = pair_gain(&self._scratch, &self._outcomes[pair], 0)
        # `outcome.value` stays the same if the oracle finds no better outcome
        outcome.value = observed
        self._find_pair(pair, linear, observed, &outcome)
        # two outcomes that share no label have an overlap of two
        return progress_of(outcome.value - observed,
                           C * self.model.pair_norm + 2.0 * self.rho)

    cdef double _extend_pair(self, Py_ssize_t pair, double C,
                             bint linear) except -1.0 nogil:
        """Activate the best outcome of the loaded pair if its q would become positive.

        Returns Q of the active outcomes, including the new one.
        """
        cdef ActiveOutcomes* outcomes = &self._outcomes[pair]
        cdef Scratch* scratch = &self._scratch
        cdef Py_ssize_t n = outcomes.size, k
        cdef double curvature = self._pair_curvature(outcomes, C)
        cdef double gain, floor, best = -INFINITY, mean = 0.0
        cdef Outcome outcome
        outcome.value = 0.0
        for k in range(n):
            gain = pair_gain(scratch, outcomes, k)
            best = gain if gain > best else best
            mean += outcomes.q[k] * gain
            scratch.target[k] = outcomes.q[k] + gain / curvature
        # an inactive outcome gets q > 0 if its gain / Q is above the threshold; the
        # oracle returns the best outcome overall, so that only gains above `best`
        # matter
        floor = (threshold_by_dropping(n, scratch.target) * curvature
                 + self.ignore * self.model._cost[self.model._pairs[pair, 0]])
        floor = floor if floor > best else best
        if (self._ask_oracles and self._find_pair(pair, linear, floor, &outcome)
                and self._activate_pair(pair, &outcome)):
            best = outcome.value if outcome.value > best else best
            # the projections of this visit change the messages: gains are computed from
            # the score without messages, which `outcome.value` is not
            self.model.pair_scores(pair, 1, &outcomes.entry[n], &scratch.score[n],
                                   &scratch.norm[n])
            curvature = self._pair_curvature(outcomes, C)
        self.block_gap += C * (best - mean)
        return curvature

    cdef int _store_pair(self, Py_ssize_t pair, double C) except -1 nogil:
        """Update marginals and weights by the change of q_f since the visit began."""
        cdef ActiveOutcomes* outcomes = &self._outcomes[pair]
        cdef double* change = self._scratch.change
        cdef PairEnd* end
        cdef Py_ssize_t k
        cdef int side
        for k in range(outcomes.size):
            change[k] = outcomes.q[k] - self._scratch.previous[k]
        for side in range(2):
            end = &outcomes.ends[side]
            for k in range(outcomes.size):
                end.marginal[end.place[k]] += change[k]
                end.labels.total[end.place[k]] += change[k]
        # by (10), the weights contain -C q_f times the features of the outcomes
        for k in range(outcomes.size):
            change[k] *= -C
        return self.model.add_pairs(pair, outcomes.size, outcomes.entry, change)

    cdef int _visit_pair(self, Py_ssize_t pair, double C,
                         bint linear) except -1 nogil:
        """Call the oracle of a pair, and lower the augmented Lagrangian over q_f (25).

        At most INNER_STEPS projections are made.
        """
        cdef ActiveOutcomes* outcomes = &self._outcomes[pair]
        cdef double* previous
        cdef double curvature, largest
        self._load_pair(pair)
        curvature = self._extend_pair(pair, C, linear)
        # the scratch does not grow from here on, so that this pointer stays valid
        previous = self._scratch.previous
        memcpy(previous, outcomes.q, outcomes.size * sizeof(double))
        for _step in range(INNER_STEPS):
            largest = write_step(&self._scratch, outcomes, curvature)
            apply_step(&self._scratch, outcomes, C, self.rho)
            if largest < LEAST_CHANGE:
                break
        self._store_pair(pair, C)
        deactivate_outcomes(outcomes, previous)
        return 0

    # ---- multipliers ----

    def update(self, double eta):
        """Update the multipliers, u += eta (M q_f - q_v), and compute the residuals.

        Parameters
        ----------
        eta : float
            Step size of the multipliers, in units of rho.
        """
        cdef Py_ssize_t i
        cdef Residuals sums
        memset(&sums, 0, sizeof(Residuals))
        with nogil:
            for i in range(self.model.n_examples):
                self._move_multipliers(i, eta, &sums)
        self.residual_square = sums.square
        # the total variation distance at an end is half of the 1-norm of the residual
        self.infeasibility = sums.distance / (2 * max(self._n_ends, 1))
        self.primal_residual = relative_norm(sums.square, sums.size)
        self.dual_residual = relative_norm(self._square_moved, sums.multipliers)

    cdef int _move_multipliers(self, Py_ssize_t i, double eta,
                               Residuals* sums) except -1 nogil:
        """Update the multipliers of one example, and add its residuals to `sums`."""
        cdef Py_ssize_t pair
        cdef int side
        for pair in range(self.model._first_pair[i], self.model._first_pair[i + 1]):
            # another pair of the variable may have activated labels since the last
            # visit
            fit_ends(self._arena, &self._outcomes[pair])
            for side in range(2):
                move_multipliers(&self._outcomes[pair].ends[side], eta, sums)
        return 0

    def set_rho(self, double rho):
        """Change the weight of the quadratic terms; keep the multipliers rho u.

        Parameters
        ----------
        rho : float
            The new weight.
        """
        cdef Py_ssize_t pair, k
        cdef int side
        cdef double scale = self.rho / rho, change
        cdef PairEnd* end
        with nogil:
            for pair in range(self.model.n_pairs):
                for side in range(2):
                    end = &self._outcomes[pair].ends[side]
                    # labels activated since the last update have no stored multiplier
                    # yet
                    for k in range(min(end.capacity, end.labels.size)):
                        change = (scale - 1.0) * end.u[k]
                        end.u[k] += change
                        end.labels.total[k] += change
        self.rho = rho


cdef inline double write_step(Scratch* scratch, const ActiveOutcomes* outcomes,
                              double curvature) noexcept nogil:
    """Write the change of q_f by one projection; return the largest absolute change."""
    cdef Py_ssize_t n = outcomes.size, k
    cdef double threshold, q, largest = 0.0
    for k in range(n):
        scratch.target[k] = outcomes.q[k] + pair_gain(scratch, outcomes, k) / curvature
    threshold = threshold_by_dropping(n, scratch.target)
    for k in range(n):
        q = scratch.target[k] - threshold
        q = q if q > 0.0 else 0.0
        scratch.change[k] = q - outcomes.q[k]
        if fabs(scratch.change[k]) > largest:
            largest = fabs(scratch.change[k])
    return largest


cdef inline void apply_step(Scratch* scratch, ActiveOutcomes* outcomes, double C,
                            double rho) noexcept nogil:
    """Add `scratch.change` to q_f, and update the scores and messages of the pair."""
    cdef Py_ssize_t k
    cdef double change
    # w and the marginals are updated once, at the end of the visit
    for k in range(outcomes.size):
        change = scratch.change[k]
        outcomes.q[k] += change
        scratch.score[k] -= C * scratch.norm[k] * change
        scratch.message[0][outcomes.ends[0].place[k]] -= rho * change
        scratch.message[1][outcomes.ends[1].place[k]] -= rho * change
