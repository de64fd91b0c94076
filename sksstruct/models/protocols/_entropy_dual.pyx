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
parameters eta_i. These take the room of potentials, where the means of pairs at every
position would take the square of the number of labels, and H(mu_i) is
log Z(eta_i) - <eta_i, mu_i>. At first mu_i is mu_i(y_i), for which eta_i is infinite.

M. Collins, A. Globerson, T. Koo, X. Carreras and P. Bartlett, "Exponentiated gradient
algorithms for conditional random fields and max-margin Markov networks", JMLR 9, 2008.
R. Le Priol, A. Piche and S. Lacoste-Julien, "Adaptive stochastic dual coordinate ascent
for conditional random fields", UAI 2018.
"""

import numpy as np

from sksstruct.utils.entries import Entries


cdef class EntropyDual:
    """The dual variables of all examples of a bound model.

    The methods that try a distribution write the change from mu_i into the workspace.
    The `change_norm` and `apply_change` methods of the model read it there.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    mu : float
        Strength of the smoothing.

    Attributes
    ----------
    losses, entropies : ndarray of shape (n_examples,)
        L_i(mu_i), and mu H(mu_i).
    """

    def __cinit__(self, BoundModel model, double mu, *args):
        self.model, self.mu = model, mu
        self._use(np.zeros(model.n_examples), np.zeros(model.n_examples))

    def _use(self, losses, entropies):
        """Use the given arrays."""
        self.losses, self.entropies = losses, entropies
        self._losses, self._entropies = losses, entropies

    def _checked(self, state, sizes, shared):
        """Return the distributions of a state; its losses and entropies are used.

        Parameters
        ----------
        state : dict
            What `state` returned.
        sizes : sequence of int
            Lengths of natural parameters, and then those of means.
        shared : bool
            Whether it is that of an object of this process, so that nothing is checked.
        """
        kept, sums = state["distributions"], (state["losses"], state["entropies"])
        if not shared:
            entries = Entries(state, "dual variables")
            kept = entries.get("distributions", list, f"{len(sizes)} arrays")
            if len(kept) != len(sizes):
                raise entries.wrong("distributions", len(kept), f"{len(sizes)} arrays")
            # natural parameters of what is forbidden are -inf
            largest = np.finfo(float).max
            kept = [
                entries.checked(f"distributions[{k}]", array, (size,), float,
                                high=largest, infinite=2 * k < len(sizes))
                for k, (array, size) in enumerate(zip(kept, sizes))]
            shape = (self.model.n_examples,)
            sums = entries.array("losses", shape), entries.array("entropies", shape)
            # they change: not what is mapped from a file
            kept, sums = ([np.require(each, requirements="W") for each in arrays]
                          for arrays in (kept, sums))
        self._use(*sums)
        return kept

    def sharing(self):
        """Return an object with the same dual variables and its own scratch."""
        raise NotImplementedError

    def state(self):
        """Return the dual variables as a dict of arrays, with what they belong to.

        `BoundModel.entropy_dual` creates the object again from this state, for models
        that `BoundModel.fits_entropy_dual` accepts.
        """
        raise NotImplementedError

    # Load the potentials theta_i at the weights that the workspace reads.
    cdef int load(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # Try the distribution with the loaded potentials, where every observed label gains
    # an advantage; for mean parameters without natural ones that are finite.
    cdef int begin(self, Workspace ws, Py_ssize_t i, double advantage,
                   DualStep* out) except -1 nogil:
        raise NotImplementedError

    # Try the natural parameters (1 - share) eta_i + share theta_i / mu, 0 < share < 1.
    cdef int mix(self, Workspace ws, Py_ssize_t i, double share,
                 DualStep* out) except -1 nogil:
        raise NotImplementedError

    # Keep the distribution that was tried last.
    cdef int accept(self, Py_ssize_t i, const DualStep* step) except -1 nogil:
        self._losses[i], self._entropies[i] = step.loss, step.entropy
        return 0

    # Prepare mu_i - mu_i(y_i) in the workspace, and find L_i(mu_i) anew.
    cdef int distance(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # f_i at the weights that the workspace reads, and gap_i / p_i.
    cdef int gap(self, Workspace ws, Py_ssize_t i, double* loss,
                 double* gap) except -1 nogil:
        raise NotImplementedError

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
