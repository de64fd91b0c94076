"""Dual variables of losses that are smoothed by the entropy.

Let f_i be the structured hinge smoothed by the entropy with strength mu, or with mu = 1
and no loss the negative log-likelihood. The dual of alpha/2 |w|^2 + sum_i p_i f_i(w) is

    D = sum_i p_i (L_i(mu_i) + mu H(mu_i)) - alpha/2 |w|^2,
    w = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i)

where H(mu_i) is the entropy of the distribution of labelings with mean parameters mu_i
(Collins et al., 2008, Section 3; Le Priol et al., 2018, Section 2). The difference of
primal and dual is a sum of block gaps, each a Kullback-Leibler divergence:

    gap_i = p_i mu KL(mu_i | distribution with the potentials theta_i / mu)

Every mu_i belongs to a Gibbs distribution, and is kept together with its natural
parameters eta_i. Both have the layout of potentials, first of single labels, the nodes,
and then of pairs of labels; means of pairs at every position would take the square of
the number of labels. H(mu_i) is log Z(eta_i) - <eta_i, mu_i>. At first mu_i is
mu_i(y_i), for which eta_i is infinite.

M. Collins, A. Globerson, T. Koo, X. Carreras and P. Bartlett, "Exponentiated gradient
algorithms for conditional random fields and max-margin Markov networks", JMLR 9, 2008.
R. Le Priol, A. Piche and S. Lacoste-Julien, "Adaptive stochastic dual coordinate ascent
for conditional random fields", UAI 2018.
"""

import numpy as np

from libc.string cimport memcpy, memset

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace

from sksstruct.utils._layout import aligned_zeros, file_zeros
from sksstruct.utils.entries import Entries


cdef class EntropyDual:
    """The dual variables of all examples of a bound model.

    A subclass says how many parameters an example has (`sizes`), and defines the
    methods after it. The methods that try a distribution write the change from mu_i
    into the workspace. The `change_norm` and `apply_change` methods of the model read
    it there.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    mu : float
        Strength of the smoothing.
    state : dict, default=None
        The state of another object, whose distributions are used.
    shared : bool, default=False
        Whether that object is there, too, so that there is nothing to check.

    Attributes
    ----------
    losses, entropies : ndarray of shape (n_examples,)
        L_i(mu_i), and mu H(mu_i).
    kept : list of ndarray
        Natural parameters of all examples, one after the other, and their means.
    """

    def __init__(self, BoundModel model, double mu, state=None, bint shared=False):
        cdef double[::1] natural, means, loaded, tried, tried_means, change
        cdef Py_ssize_t i
        self.model, self.mu = model, mu
        sizes = np.asarray(self.sizes(), dtype=np.intp)
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        # one at least, so that there is an address
        total = max(int(sizes.sum()), 1)
        if state is None:
            zeros = file_zeros if model.on_disk else aligned_zeros
            self.kept = [zeros(total) for _ in range(2)]
            self._use(*(np.zeros(model.n_examples) for _ in range(2)))
        else:
            self.kept = self._checked(state, total, shared)
        natural, means = self.kept
        self._natural, self._means = &natural[0], &means[0]
        loaded, tried, tried_means, change = self._scratch = [
            aligned_zeros(max(int(sizes.max(initial=0)), 1)) for _ in range(4)]
        self._loaded, self._tried = &loaded[0], &tried[0]
        self._tried_means, self._change = &tried_means[0], &change[0]
        # a spare entry: labelings may be empty
        self._labeling = np.zeros(model.max_size + 1, dtype=np.int32)
        self._keys = np.zeros(model.max_keys + 1, dtype=np.int32)
        if state is None:
            for i in range(model.n_examples):
                self.observe(i, self._means + self._first[i])

    def _use(self, losses, entropies):
        """Use the given arrays."""
        self.losses, self.entropies = losses, entropies
        self._losses, self._entropies = losses, entropies

    def _checked(self, state, size, shared):
        """Return the distributions of a state; its losses and entropies are used."""
        kept, sums = state["distributions"], (state["losses"], state["entropies"])
        if not shared:
            entries = Entries(state, "dual variables")
            kept = entries.get("distributions", list, "2 arrays")
            if len(kept) != 2:
                raise entries.wrong("distributions", len(kept), "2 arrays")
            # natural parameters of what is forbidden are -inf
            largest = np.finfo(float).max
            kept = [
                entries.checked(f"distributions[{k}]", array, (size,), float,
                                high=largest, infinite=k == 0)
                for k, array in enumerate(kept)]
            shape = (self.model.n_examples,)
            sums = entries.array("losses", shape), entries.array("entropies", shape)
            # they change: not what is mapped from a file
            kept, sums = ([np.require(each, requirements="W") for each in arrays]
                          for arrays in (kept, sums))
        self._use(*sums)
        return kept

    def sharing(self):
        """Return an object with the same dual variables and its own scratch."""
        return type(self)(self.model, self.mu, self.state(), True)

    def state(self):
        """Return the dual variables as a dict of arrays, with what they belong to.

        `sksstruct.models.roles.entropy_dual` creates the object again from this state,
        for models that `fits_entropy_dual` accepts.
        """
        return {
            "mu": self.mu, "signature": self.model.signature,
            "labels": self.model.labels, "distributions": self.kept,
            "losses": self.losses, "entropies": self.entropies,
        }

    def check(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop,
              double[::1] losses, double[::1] gaps):
        """Write f_i and gap_i / p_i of start <= i < stop; changes only scratch."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(start, stop):
                self.gap(ws, i, &losses[i], &gaps[i])
                # rounding errors, where the block is at its optimum
                if gaps[i] < 0.0:
                    gaps[i] = 0.0

    cdef Py_ssize_t _size(self, Py_ssize_t i) noexcept nogil:
        """Return the number of parameters of an example."""
        return self._first[i + 1] - self._first[i]

    # ---- steps ----

    cdef int load(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        """Load the potentials theta_i at the weights that the workspace reads."""
        self.model.potentials(ws, i)
        return self.read(ws, i)

    cdef int begin(self, Workspace ws, Py_ssize_t i, double advantage,
                   DualStep* out) except -1 nogil:
        """Try the distribution with the loaded potentials, where every observed label
        gains an advantage; for mean parameters without finite natural ones."""
        # potentials alone would be too far away at first: at large weights every step
        # of an example takes back most of what the others have learned
        memcpy(self._tried, self._loaded, self._size(i) * sizeof(double))
        self._favor(i, self._tried, advantage)
        self._find_means(ws, i, out)
        # eta_i is infinite: there is no slope
        out.slope = 0.0
        return 0

    cdef int mix(self, Workspace ws, Py_ssize_t i, double share,
                 DualStep* out) except -1 nogil:
        """Try the natural parameters (1 - share) eta_i + share theta_i / mu.

        Both shares are positive, so that -inf of what is forbidden stays -inf.
        """
        cdef const double* natural = self._natural + self._first[i]
        cdef double rest = 1.0 - share
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            self._tried[k] = rest * natural[k] + share * self._loaded[k]
        self._find_means(ws, i, out)
        out.slope = out.linear - self.mu * inner(
            self._size(i), natural, self._change)
        return 0

    cdef int spread(self, Workspace ws, Py_ssize_t i, DualStep* out) except -1 nogil:
        """Try the distribution with the loaded potentials, as a change from mu_i(y_i),
        whatever mu_i is."""
        memcpy(self._tried, self._loaded, self._size(i) * sizeof(double))
        self._find_means(ws, i, out)
        self.model.clear(ws, i)
        # in the scratch of the loaded potentials, which nobody needs now
        self.observe(i, self._loaded)
        return self._prepare(ws, i, self._tried_means, self._loaded)

    cdef int _find_means(self, Workspace ws, Py_ssize_t i,
                         DualStep* out) except -1 nogil:
        """Find the means of what is tried, and prepare the change from those kept."""
        cdef Py_ssize_t nodes = self.n_nodes(i), rest = self._size(i) - nodes
        cdef double log_partition = self.expect(ws, i, self._tried, self._tried_means)
        out.loss = self.loss(i, self._tried_means)
        out.wrong = self._wrong(i, self._tried_means)
        out.entropy = self.mu * (
            log_partition - inner(nodes, self._tried, self._tried_means)
            - inner(rest, self._tried + nodes, self._tried_means + nodes))
        self._prepare(ws, i, self._tried_means, self._means + self._first[i])
        # all labelings gain the same from the constant part of the loss
        out.linear = self.mu * inner(
            self._size(i), self._loaded, self._change)
        return 0

    cdef int accept(self, Py_ssize_t i, const DualStep* step) except -1 nogil:
        """Keep the distribution that was tried last."""
        cdef Py_ssize_t first = self._first[i], bytes = self._size(i) * sizeof(double)
        # natural parameters with their means: no later visit calls the oracle for both
        memcpy(self._natural + first, self._tried, bytes)
        memcpy(self._means + first, self._tried_means, bytes)
        self._losses[i], self._entropies[i] = step.loss, step.entropy
        return 0

    # ---- sums over all examples, and certificates ----

    cdef int distance(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        """Prepare mu_i - mu_i(y_i) in the workspace, and find L_i(mu_i) anew."""
        cdef const double* means = self._means + self._first[i]
        self.load(ws, i)
        # costs may be others than those of the problem that the means are from
        self._losses[i] = self.loss(i, means)
        # in the scratch of what is tried, which nobody needs now
        self.observe(i, self._tried_means)
        return self._prepare(ws, i, means, self._tried_means)

    cdef int gap(self, Workspace ws, Py_ssize_t i, double* loss,
                 double* gap) except -1 nogil:
        """Write f_i at the weights that the workspace reads, and gap_i / p_i."""
        cdef const double* means = self._means + self._first[i]
        cdef Py_ssize_t nodes = self.n_nodes(i), rest = self._size(i) - nodes
        cdef double log_partition, mean_score
        self.load(ws, i)
        log_partition = self.log_partition(ws, i)
        # the constant part of the loss is in both, and in no difference
        # in the scratch of what is tried, which nobody needs now
        self.observe(i, self._tried_means)
        loss[0] = self.mu * (log_partition - inner(
            self._size(i), self._loaded, self._tried_means))
        mean_score = (inner(nodes, self._loaded, means)
                      + inner(rest, self._loaded + nodes, means + nodes))
        gap[0] = self.mu * (log_partition - mean_score) - self._entropies[i]
        return 0

    # ---- the observed labeling ----

    cdef Py_ssize_t observed_keys(self, Py_ssize_t i) except -1 nogil:
        """Find the keys of the observed labeling; return how many."""
        self.model.y_true(i, &self._labeling[0])
        return self.model.indicator(i, &self._labeling[0], &self._keys[0])

    cdef int _favor(self, Py_ssize_t i, double* natural,
                    double advantage) except -1 nogil:
        """Let every observed label gain an advantage."""
        cdef Py_ssize_t n_keys = self.observed_keys(i), nodes = self.n_nodes(i), k
        for k in range(n_keys):
            if self._keys[k] < nodes:
                natural[self._keys[k]] += advantage
        return 0

    cdef double _wrong(self, Py_ssize_t i, const double* means) except? -1 nogil:
        """Return what means have on labels that were not observed."""
        cdef Py_ssize_t n_keys = self.observed_keys(i), nodes = self.n_nodes(i), k
        cdef double total = 0.0
        # nodes only: of what several parts share, no share is that of one labeling
        for k in range(n_keys):
            if self._keys[k] < nodes:
                total += 1.0 - means[self._keys[k]]
        return total

    # ---- changes of means ----

    cdef int _prepare(self, Workspace ws, Py_ssize_t i, const double* new,
                      const double* old) except -1 nogil:
        """Write a difference of means to the workspace, as the change it prepares."""
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            self._change[k] = new[k] - old[k]
        return self.add_change(ws, i)

    # ---- what subclasses define ----

    def sizes(self):
        """Return the number of parameters of each example."""
        raise NotImplementedError

    # How many of them are of nodes, whose means are shares of single labels.
    cdef Py_ssize_t n_nodes(self, Py_ssize_t i) noexcept nogil:
        return self._size(i)

    # Write the potentials in the workspace over mu to `_loaded`.
    cdef int read(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # Write the means of natural parameters, and return the log-partition function.
    cdef double expect(self, Workspace ws, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil:
        raise NotImplementedError

    # The log-partition function of the loaded potentials; what was tried is lost.
    cdef double log_partition(self, Workspace ws, Py_ssize_t i) except? -1 nogil:
        return self.expect(ws, i, self._loaded, self._tried_means)

    # L_i of means.
    cdef double loss(self, Py_ssize_t i, const double* means) except? -1 nogil:
        raise NotImplementedError

    # The next two are for parameters that are numbered as the keys of labelings are.

    # Write mu_i(y_i).
    cdef int observe(self, Py_ssize_t i, double* means) except -1 nogil:
        cdef Py_ssize_t n_keys = self.observed_keys(i), k
        memset(means, 0, self._size(i) * sizeof(double))
        # a part that is shared is there as often as it counts
        for k in range(n_keys):
            means[self._keys[k]] += 1.0
        return 0

    # Add `_change` to the change that the workspace prepares.
    cdef int add_change(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        return self.model.add_means(ws, i, self._change)
