"""Dual variables of losses that are smoothed by the entropy.

Let f_i be the structured hinge smoothed by the entropy with strength mu, or with mu = 1
and no loss the negative log-likelihood. The dual of alpha/2 |w|^2 + sum_i p_i f_i(w) is

    D = sum_i p_i (L_i(mu_i) + mu H(mu_i)) - alpha/2 |w|^2,
    w = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i)

where H(mu_i) is the entropy of the distribution of labelings with mean parameters mu_i
(Collins et al., 2008, Section 3; Le Priol et al., 2018, Section 2). The difference of
primal and dual is a sum of block gaps, each a Kullback-Leibler divergence:

    gap_i = p_i mu KL(mu_i | distribution with the potentials theta_i / mu)

Every mu_i belongs to a Gibbs distribution with natural parameters eta_i. Both have the
layout of potentials: parameters of single labels, called nodes, and then of pairs of
labels, with one table for all positions, as tables of all positions would take too much
memory.
H(mu_i) is log Z(eta_i) - <eta_i, mu_i>. At first mu_i is mu_i(y_i), for which eta_i is
infinite.

Each step rounds eta_i to single precision before the oracle finds its means in double
precision. So D is the dual value of the stored eta_i, and needs no margin for rounding.
The mu_i follow from the eta_i, bit for bit. If examples are small, the mu_i of the
first examples are stored, up to `KEPT_BYTES`; the oracle finds the remaining mu_i
again. If examples are large, none is stored: reading and writing mu_i would take as
long as the oracle.

M. Collins, A. Globerson, T. Koo, X. Carreras and P. Bartlett, "Exponentiated gradient
algorithms for conditional random fields and max-margin Markov networks", JMLR 9, 2008.
R. Le Priol, A. Piche and S. Lacoste-Julien, "Adaptive stochastic dual coordinate ascent
for conditional random fields", UAI 2018.
"""

import numpy as np

from libc.float cimport FLT_MAX
from libc.math cimport INFINITY
from libc.string cimport memcpy, memset

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace

from sksstruct.utils._layout import aligned_zeros, file_zeros
from sksstruct.utils.entries import Entries


# Largest size of the stored means in bytes, unless they are in a file.
KEPT_BYTES = 2**26
# Largest average number of natural parameters per example for which means are stored.
MOST_KEPT = 2**13


cdef inline float rounded(double value) noexcept nogil:
    """Return a natural parameter in single precision; finite values stay finite."""
    cdef double kept = FLT_MAX if value > FLT_MAX else value
    kept = -FLT_MAX if kept < -FLT_MAX else kept
    return <float> (value if value == -INFINITY else kept)


def n_kept(model):
    """Return for how many natural parameters of a model means can be stored."""
    size = model.entropy_dual_size
    if model.on_disk:
        return size
    if size > MOST_KEPT * model.n_examples:
        return 0
    return min(size, KEPT_BYTES // 8)


def dual_bytes(model):
    """Return the bytes of the natural parameters of a model, and of stored means."""
    return 4 * model.entropy_dual_size + 8 * n_kept(model)


cdef class EntropyDual:
    """The dual variables of all examples of a bound model.

    A subclass defines `sizes`, the numbers of parameters of the examples, and the
    methods after `sizes`. The methods that try a distribution write the change from
    mu_i into the workspace, where `change_norm` and `apply_change` of the model read
    it.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    mu : float
        Strength of the smoothing.
    state : dict, default=None
        State of another object, whose distributions are the initial ones.
    source : EntropyDual, default=None
        Another object, whose dual variables are shared.

    Attributes
    ----------
    losses, entropies : ndarray of shape (n_examples,)
        L_i(mu_i), and mu H(mu_i).
    natural : ndarray of float32
        Natural parameters of all examples, consecutive.
    begun : ndarray of bool, shape (n_examples,)
        Whether an example has natural parameters: mu_i is not mu_i(y_i).
    """

    def __init__(self, BoundModel model, double mu, state=None,
                 EntropyDual source=None):
        cdef float[::1] natural
        cdef double[::1] means, loaded, tried, tried_means, change, other
        cdef Py_ssize_t longest
        self.model, self.mu = model, mu
        sizes = np.asarray(self.sizes(), dtype=np.intp)
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        # at least one parameter, so that addresses are valid
        longest, total = max(int(sizes.max(initial=0)), 1), max(int(sizes.sum()), 1)
        zeros = file_zeros if model.on_disk else aligned_zeros
        if source is not None:
            self._use(source.natural, source.begun, source.losses, source.entropies)
            self._stored = source._stored
        else:
            if state is not None:
                self._use(*self._checked(state, total))
            else:
                n = model.n_examples
                self._use(zeros(total, np.float32), np.zeros(n, dtype=bool),
                          np.zeros(n), np.zeros(n))
            self._stored = (
                zeros(max(n_kept(model), 1)), np.zeros(model.n_examples, dtype=bool))
        natural, means = self.natural, self._stored[0]
        self._natural, self._means, self._room = &natural[0], &means[0], means.shape[0]
        self._has_means = self._stored[1].view(np.uint8)
        loaded, tried, tried_means, change, other = self._scratch = [
            aligned_zeros(longest) for _ in range(5)]
        self._loaded, self._tried = &loaded[0], &tried[0]
        self._tried_means, self._change = &tried_means[0], &change[0]
        self._last_means, self._last_example = &other[0], -1
        # a spare entry, as labelings may be empty
        self._labeling = np.zeros(model.max_size + 1, dtype=np.int32)
        self._keys = np.zeros(model.max_keys + 1, dtype=np.int32)

    def _use(self, natural, begun, losses, entropies):
        """Store the given arrays as the dual variables."""
        self.natural, self.begun = natural, begun
        self.losses, self.entropies = losses, entropies
        self._begun = begun.view(np.uint8)
        self._losses, self._entropies = losses, entropies

    def _checked(self, state, size):
        """Return the arrays of a state, after checks."""
        entries, n = Entries(state, "dual variables"), self.model.n_examples
        arrays = (
            # natural parameters of forbidden labels are -inf
            entries.array("natural", (size,), np.float32, high=FLT_MAX, infinite=True),
            entries.array("begun", (n,), bool),
            entries.array("losses", (n,)), entries.array("entropies", (n,)),
        )
        # steps change the arrays, which may be mapped read-only from a file
        return (np.require(array, requirements="W") for array in arrays)

    def sharing(self):
        """Return an object with the same dual variables and its own scratch."""
        return type(self)(self.model, self.mu, source=self)

    def state(self):
        """Return the dual variables as a dict of arrays, with the problem's data.

        `sksstruct.models.roles.entropy_dual` creates the object again from this state,
        for models that `fits_entropy_dual` accepts.
        """
        return {
            "mu": self.mu, "signature": self.model.signature,
            "labels": self.model.labels, "natural": self.natural, "begun": self.begun,
            "losses": self.losses, "entropies": self.entropies,
        }

    def check(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop,
              double[::1] losses, double[::1] gaps):
        """Write f_i and gap_i / p_i of start <= i < stop; changes only scratch."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(start, stop):
                self.gap(ws, i, &losses[i], &gaps[i])
                # gaps below zero are rounding errors
                if gaps[i] < 0.0:
                    gaps[i] = 0.0

    cdef Py_ssize_t _size(self, Py_ssize_t i) noexcept nogil:
        """Return the number of natural parameters of an example."""
        return self._first[i + 1] - self._first[i]

    cdef bint _has_room(self, Py_ssize_t i) noexcept nogil:
        """Return whether `_means` has memory for the means of an example."""
        return self._first[i + 1] <= self._room

    cdef const double* means(self, Workspace ws, Py_ssize_t i) except NULL nogil:
        """Return mu_i of an example whose potentials are loaded.

        Overwrites the natural parameters of a trial unless mu_i is stored.
        """
        cdef const float* natural = self._natural + self._first[i]
        cdef double* means = self._last_means
        cdef Py_ssize_t k
        if self._has_room(i):
            means = self._means + self._first[i]
            if self._has_means[i]:
                return means
            self._has_means[i] = True
        elif self._last_example == i:
            return means
        else:
            self._last_example = i
        if not self._begun[i]:
            self.observe(i, means)
            return means
        for k in range(self._size(i)):
            self._tried[k] = natural[k]
        self.expect(ws, i, self._tried, means)
        return means

    # ---- steps ----

    cdef int load(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        """Load the potentials theta_i at the weights that the workspace reads."""
        self.model.potentials(ws, i)
        return self.read(ws, i)

    cdef int begin(self, Workspace ws, Py_ssize_t i, double advantage,
                   DualStep* out) except -1 nogil:
        """Try the distribution of the loaded potentials plus an advantage of every
        observed label; for examples whose eta_i is infinite."""
        # without the advantage the first steps are too long: at large weights, a step
        # on an example would undo most of the progress on other examples
        cdef const double* means = self.means(ws, i)
        memcpy(self._tried, self._loaded, self._size(i) * sizeof(double))
        self._favor(i, self._tried, advantage)
        self._round(i)
        self._find_means(ws, i, means, out)
        # eta_i is infinite, so that no slope exists
        out.slope = 0.0
        return 0

    cdef int mix(self, Workspace ws, Py_ssize_t i, double share,
                 DualStep* out) except -1 nogil:
        """Try the natural parameters (1 - share) eta_i + share theta_i / mu.

        Both shares are positive, so that -inf of forbidden labels stays -inf.
        """
        cdef const float* natural = self._natural + self._first[i]
        cdef const double* means = self.means(ws, i)
        cdef double rest = 1.0 - share
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            self._tried[k] = rounded(rest * natural[k] + share * self._loaded[k])
        self._find_means(ws, i, means, out)
        out.slope = out.linear - self.mu * inner(
            self._size(i), natural, self._change)
        return 0

    cdef int spread(self, Workspace ws, Py_ssize_t i, DualStep* out) except -1 nogil:
        """Try the distribution of the loaded potentials, as a change from mu_i(y_i)
        instead of mu_i."""
        self._last_example = -1
        self.observe(i, self._last_means)
        memcpy(self._tried, self._loaded, self._size(i) * sizeof(double))
        return self._find_means(ws, i, self._last_means, out)

    cdef int _round(self, Py_ssize_t i) noexcept nogil:
        """Round the natural parameters of the trial, as `accept` stores them."""
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            self._tried[k] = rounded(self._tried[k])
        return 0

    cdef int _find_means(self, Workspace ws, Py_ssize_t i, const double* means,
                         DualStep* out) except -1 nogil:
        """Find the means of the trial, and write the results of the step to `out`.

        Adds the means of the trial minus `means` to the change d in the workspace.
        """
        cdef Py_ssize_t nodes = self.n_nodes(i), rest = self._size(i) - nodes
        cdef double log_partition = self.expect(ws, i, self._tried, self._tried_means)
        out.loss = self.loss(i, self._tried_means)
        out.wrong = self._wrong(i, self._tried_means)
        out.entropy = self.mu * (
            log_partition - inner(nodes, self._tried, self._tried_means)
            - inner(rest, self._tried + nodes, self._tried_means + nodes))
        self._prepare(ws, i, self._tried_means, means)
        # the constant part of the loss is the same for all labelings, and cancels
        out.linear = self.mu * inner(
            self._size(i), self._loaded, self._change)
        return 0

    cdef int accept(self, Py_ssize_t i, const DualStep* step) except -1 nogil:
        """Store the distribution that was tried last."""
        cdef float* natural = self._natural + self._first[i]
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            natural[k] = <float> self._tried[k]
        if self._has_room(i):
            memcpy(self._means + self._first[i], self._tried_means,
                   self._size(i) * sizeof(double))
        self._last_example = -1
        self._begun[i] = True
        self._losses[i], self._entropies[i] = step.loss, step.entropy
        return 0

    # ---- sums over all examples, and certificates ----

    cdef int distance(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        """Prepare mu_i - mu_i(y_i) in the workspace, and compute L_i(mu_i) again."""
        cdef const double* means
        self.load(ws, i)
        means = self.means(ws, i)
        # the costs may differ from those of the problem whose state was loaded
        self._losses[i] = self.loss(i, means)
        # no trial is pending, so that its means are free as scratch
        self.observe(i, self._tried_means)
        return self._prepare(ws, i, means, self._tried_means)

    cdef int gap(self, Workspace ws, Py_ssize_t i, double* loss,
                 double* gap) except -1 nogil:
        """Write f_i at the weights that the workspace reads, and gap_i / p_i."""
        cdef const double* means
        cdef Py_ssize_t nodes = self.n_nodes(i), rest = self._size(i) - nodes
        cdef double log_partition, mean_score
        self.load(ws, i)
        means = self.means(ws, i)
        log_partition = self.log_partition(ws, i)
        # the constant part of the loss is in both terms, and cancels; no trial is
        # pending, so that its means are free as scratch
        self.observe(i, self._tried_means)
        loss[0] = self.mu * (log_partition - inner(
            self._size(i), self._loaded, self._tried_means))
        mean_score = (inner(nodes, self._loaded, means)
                      + inner(rest, self._loaded + nodes, means + nodes))
        gap[0] = self.mu * (log_partition - mean_score) - self._entropies[i]
        return 0

    # ---- the observed labeling ----

    cdef Py_ssize_t observed_keys(self, Py_ssize_t i) except -1 nogil:
        """Write the keys of the observed labeling to `_keys`; return their number."""
        self.model.y_true(i, &self._labeling[0])
        return self.model.indicator(i, &self._labeling[0], &self._keys[0])

    cdef int _favor(self, Py_ssize_t i, double* natural,
                    double advantage) except -1 nogil:
        """Add an advantage to the natural parameter of every observed label."""
        cdef Py_ssize_t n_keys = self.observed_keys(i), nodes = self.n_nodes(i), k
        for k in range(n_keys):
            if self._keys[k] < nodes:
                natural[self._keys[k]] += advantage
        return 0

    cdef double _wrong(self, Py_ssize_t i, const double* means) except? -1 nogil:
        """Return the sum over nodes of the probability of a wrong label."""
        cdef Py_ssize_t n_keys = self.observed_keys(i), nodes = self.n_nodes(i), k
        cdef double total = 0.0
        # only nodes: the mean of an entry that several parts share is no probability
        for k in range(n_keys):
            if self._keys[k] < nodes:
                total += 1.0 - means[self._keys[k]]
        return total

    # ---- changes of means ----

    cdef int _prepare(self, Workspace ws, Py_ssize_t i, const double* new,
                      const double* old) except -1 nogil:
        """Add the means `new` minus `old` to the change d in the workspace."""
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            self._change[k] = new[k] - old[k]
        return self.add_change(ws, i)

    # ---- methods that subclasses define ----

    def sizes(self):
        """Return the number of parameters of each example."""
        raise NotImplementedError

    # Return the number of parameters of nodes, whose means are probabilities of single
    # labels.
    cdef Py_ssize_t n_nodes(self, Py_ssize_t i) noexcept nogil:
        return self._size(i)

    # Write the potentials in the workspace, divided by mu, to `_loaded`.
    cdef int read(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # Write the means of natural parameters, and return the log-partition.
    cdef double expect(self, Workspace ws, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil:
        raise NotImplementedError

    # Return the log-partition of the loaded potentials; overwrites the means of the
    # trial.
    cdef double log_partition(self, Workspace ws, Py_ssize_t i) except? -1 nogil:
        return self.expect(ws, i, self._loaded, self._tried_means)

    # Return the expected loss L_i(mu_i) at the given means.
    cdef double loss(self, Py_ssize_t i, const double* means) except? -1 nogil:
        raise NotImplementedError

    # The next two methods assume that the index of a parameter is its key.

    # Write mu_i(y_i), the mean parameters of the observed labeling.
    cdef int observe(self, Py_ssize_t i, double* means) except -1 nogil:
        cdef Py_ssize_t n_keys = self.observed_keys(i), k
        memset(means, 0, self._size(i) * sizeof(double))
        # a key that several parts share counts once for each part
        for k in range(n_keys):
            means[self._keys[k]] += 1.0
        return 0

    # Add `_change` to the change of mean parameters in the workspace.
    cdef int add_change(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        return self.model.add_means(ws, i, self._change)
