"""Losses with a gradient, for solvers that follow gradients of a bound model.

With the hinge h_i(w) = max_y H_i(y) smoothed by mu (Pillutla et al., 2018, Section 2),

    f_i(w) = max over distributions u of labelings of  sum_y u_y H_i(y) - mu omega(u)
    grad f_i(w) = A_i^T (E mu_i - mu_i(y_i)),  E mu_i being the mean parameters of u

where omega is the negative entropy (the exp oracle) or half the squared norm (the top-K
oracle). The negative log-likelihood has the entropy, with mu = 1 and no loss. Further
notation is as in `_bound_model.pyx`.

Solvers that visit one example at a time need E mu_i at the weights of the visit, minus
E mu_i at the weights of the last value and gradient, the anchor.
"""

from libc.math cimport NAN


cdef class SmoothLoss:
    """The smooth losses f_i of a bound model, and their mean.

    Attributes
    ----------
    model : BoundModel
        The model with its data.
    row_size : int
        Number of weights that visits bring up to date together.
    mu : float
        Strength of the smoothing.
    exact : ndarray of shape (n_examples,), bool
        Whether the last value and gradient are exact for the smooth loss of an example,
        rather than for its K best labelings.
    support : ndarray of int or None
        Flat weights that exist, if some are missing; missing weights are zero.
    convex : bool
        Whether the loss is convex. If not, the expected mean parameters are not dual
        variables.
    nonsmooth : bool
        Whether the structured hinge itself is minimized by means of the smooth loss.
    unpenalized : ndarray of int or None
        Flat weights without a penalty, if there are any. Such a loss has a method
        ``dual_value(w, alpha)``, which returns a lower bound of the optimum.
    diameter : float
        D: smoothing by mu adds at most mu D to the mean loss.
    expected_loss : float
        sum_i p_i E L_i at the last value and gradient. With the gradient g, a dual
        value of the hinge is expected_loss - |g|^2 / (2 alpha).
    hinge : float
        The mean structured hinge at the last value and gradient; NaN if the oracle,
        like sum-product, does not compute it.
    keep_anchors : bool
        Whether the next value and gradient become the anchor of visits.
    """

    unpenalized = None

    def __cinit__(self, *args, **kwargs):
        self.hinge = NAN

    def set_smoothing(self, double mu):
        """Set the strength of the smoothing to mu."""
        if not mu > 0.0:
            raise ValueError(f"the smoothing must be positive, got {mu}")
        self.mu = mu

    def value_and_gradient(self, w, gradient, n_jobs=None):
        """Return the mean loss at weights w, and write its gradient.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
            Weights.
        gradient : ndarray of shape (n_weights,)
            Overwritten.
        n_jobs : int, default=None
            Number of threads, which does not change the result.

        Returns
        -------
        loss : float
            Mean loss.
        """
        raise NotImplementedError

    def start_visits(self, bint anchored):
        """Prepare calls of `mean_change`, whose argument `anchored` is the same."""
        raise NotImplementedError

    # Bring the weights that example i reads up to date, before its visit.
    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # Add to the workspace's change d: E mu_i at `scale` times the workspace's weights,
    # minus E mu_i at the anchor or, if not `anchored`, minus mu_i(y_i).
    cdef int mean_change(self, Workspace ws, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        raise NotImplementedError
