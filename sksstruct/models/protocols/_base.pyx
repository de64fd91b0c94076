"""What a solver knows of a model: a linear map, its transpose, a loss and an oracle.

A bound model holds data and weights. In the notation of Osokin et al. (2016):

    theta_i = A_i w                     potentials of example i
    mu_i(y)                             mean parameters: indicator of the parts of y
    H_i(y)  = L_i(y) + <theta_i, mu_i(y) - mu_i(y_i)>
    P(w)    = alpha/2 |w|^2 + sum_i p_i max_y H_i(y)

with example weights p_i >= 0 that sum to one (1/n without sample weights). Duals
live in the space of mean parameters, w = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i).

A labeling is a record of `sizes[i]` small integers. Mean parameters are sparse:
lists of (key, value), keys below `key_space`; `indicator` lists those of a labeling,
at most `max_keys` of them.

The weights are one flat vector. With box constraints (App. H) v is the unconstrained
vector and w its truncation; else they are the same memory. u collects the weighted
average of the iterates. Padding inside w stays zero.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcmp

from sksstruct.utils._layout import aligned_zeros


cdef class Workspace:
    pass


cdef class BoundModel:
    def set_sizes(self, sizes, example_weights):
        """Fix the labelings' sizes and the example weights p_i."""
        self.sizes = np.ascontiguousarray(sizes, dtype=np.intp)
        self.example_weights = np.ascontiguousarray(example_weights, dtype=np.float64)
        self._sizes = self.sizes
        self._example_weights = self.example_weights
        self.n_examples = len(self.sizes)
        self.max_size = self.sizes.max()
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._starts = self.starts
        self.loss_scale = 1.0

    def start(self, *, average=False, bounds=None):
        """Zero the weights; make room for averaging and bounds when asked for."""
        self.w = aligned_zeros(self.n_weights)
        self.v = self.w
        self.u = aligned_zeros(self.n_weights) if average else None
        self.lower = self.upper = None
        self._lower = self._upper = NULL
        if bounds is not None:
            self.v = aligned_zeros(self.n_weights)
            self.lower, self.upper = bounds
            np.clip(self.v, self.lower, self.upper, out=self.w)
        self.set_pointers()

    def set_pointers(self):
        """Let the compiled loops see the arrays of weights."""
        cdef double[::1] w = self.w, v = self.v, u
        cdef const double[::1] lower, upper
        self._w, self._v, self._u = &w[0], &v[0], NULL
        if self.u is not None:
            u = self.u
            self._u = &u[0]
        if self.lower is not None:
            lower, upper = self.lower, self.upper
            self._lower, self._upper = &lower[0], &upper[0]
        self.read_from(self.w)

    def collect_average(self, bint collect):
        """Whether changes of the weights go into u, the average of the iterates."""
        cdef double[::1] u
        self._u = NULL
        if collect:
            u = self.u
            self._u = &u[0]

    def set_weights(self, v):
        """Use other weights: v, truncated to the box where there is one."""
        self.v[:] = v
        if self.lower is not None:
            np.clip(self.v, self.lower, self.upper, out=self.w)

    # Visits with the oracle cost so many times what visits of known labelings cost.
    oracle_cost = 2.0

    def workspace(self, training=True):
        """Scratch for one thread; with training=False for potentials only."""
        raise NotImplementedError

    def read_from(self, w):
        """Form potentials from other flat weights, until told otherwise."""
        cdef const double[::1] view = w
        if view.shape[0] != self.n_weights:
            raise ValueError(f"expected {self.n_weights} weights, got {view.shape[0]}")
        self._held = w
        self._reading = &view[0]

    def dual_space(self):
        """The dual variables as a `DualSpace`."""
        raise NotImplementedError

    def best(self, Workspace ws, Py_ssize_t i, Py_ssize_t k):
        """The k best labelings of an example, the loss included; rows, and values."""
        raise NotImplementedError

    def flat_bounds(self, bounds):
        """Flat lower and upper bounds from a dict of named blocks."""
        raise NotImplementedError

    @property
    def signature(self):
        """Equal where labelings of the one problem are labelings of the other."""
        return type(self).__name__, int(self.key_space), self.sizes.tobytes()

    def box(self, bounds):
        """Flat bounds: the given ones and those that the oracles need; or None."""
        given = [each for each in (bounds, self.required_bounds) if each is not None]
        if not given:
            return None
        flat = [self.flat_bounds(each) for each in given]
        lower = np.maximum.reduce([each[0] for each in flat])
        upper = np.minimum.reduce([each[1] for each in flat])
        if not (lower <= upper).all():
            raise ValueError(
                f"bounds leave no weights: the model needs {self.required_bounds}")
        return lower, upper

    def decode_all(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop,
                   int32_t[::1] labelings, double[::1] hinge, double[::1] losses):
        """Decode examples start <= i < stop with the loss at the current weights.

        Labelings go to labelings[starts[i]:starts[i + 1]], max_y H_i(y) to hinge, and
        their losses to losses.
        """
        cdef Py_ssize_t i
        cdef double value, true_value
        cdef int32_t[::1] y_true = np.empty(self.max_size, dtype=np.int32)
        cdef int32_t* y
        with nogil:
            for i in range(start, stop):
                y = &labelings[self._starts[i]]
                self.potentials(ws, i)
                self.y_true(i, &y_true[0])
                self.evaluate(ws, i, &y_true[0], &true_value)
                self.decode(ws, i, y, &value)
                hinge[i] = value - true_value
                self.loss(i, y, &losses[i])

    def add_difference(self, Workspace ws, const int32_t[::1] labelings, double scale,
                       double[::1] out):
        """out += scale sum_i p_i A_i^T (mu_i(y_i) - mu_i(labelings_i))"""
        cdef Py_ssize_t i
        cdef double* v = self._v
        cdef double* u = self._u
        cdef const double* lower = self._lower
        cdef int32_t[::1] y_true = np.empty(self.max_size, dtype=np.int32)
        cdef const int32_t* y
        if out.shape[0] != self.n_weights:
            raise ValueError(f"expected {self.n_weights} weights, got {out.shape[0]}")
        self._v, self._u, self._lower = &out[0], NULL, NULL
        try:
            with nogil:
                for i in range(self.n_examples):
                    y = &labelings[self._starts[i]]
                    self.y_true(i, &y_true[0])
                    if memcmp(y, &y_true[0], self._sizes[i] * sizeof(int32_t)) == 0:
                        continue
                    self.add_labeling(ws, i, &y_true[0], 1.0)
                    self.add_labeling(ws, i, y, -1.0)
                    self.apply_change(ws, i, scale * self._example_weights[i], 0.0)
        finally:
            self._v, self._u, self._lower = v, u, lower

    def hinge(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop, double[::1] out):
        """Write max_y H_i(y) at the current weights into out, start <= i < stop."""
        cdef Py_ssize_t i
        cdef double value, true_value
        cdef int32_t[::1] y = np.empty(self.max_size, dtype=np.int32)
        with nogil:
            for i in range(start, stop):
                self.potentials(ws, i)
                self.y_true(i, &y[0])
                self.evaluate(ws, i, &y[0], &true_value)
                self.decode(ws, i, &y[0], &value)
                out[i] = value - true_value

    def sweep(self, Workspace ws, int32_t[::1] labels):
        """One bare sweep of all max oracles: the unavoidable work of a pass."""
        cdef Py_ssize_t i
        cdef double value, total = 0.0
        with nogil:
            for i in range(self.n_examples):
                self.potentials(ws, i)
                self.decode(ws, i, &labels[0], &value)
                total += value
        return total

    # Ask for the memory of an example that is visited next (soon), or for what says
    # where that memory is, a few visits ahead; need not do anything.
    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        pass

    # theta_i at the current weights into the workspace, with loss_scale times the loss
    # added, so that the values below are L_i(y) + <theta_i, mu(y)>. The only call that
    # reads features. Weights s w give the same labelings as w with the loss divided by
    # s, which is how solvers shrink weights without touching them.
    cdef int potentials(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # Max oracle at the loaded potentials.
    cdef int decode(self, Workspace ws, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        raise NotImplementedError

    # The observed labeling y_i.
    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        raise NotImplementedError

    # L_i(y)
    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        raise NotImplementedError

    # Value of a labeling, and of mean parameters, at the loaded potentials.
    cdef int evaluate(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        raise NotImplementedError

    cdef int evaluate_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        raise NotImplementedError

    # Keys of mu(y), with repetitions where a part is shared; returns their number.
    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        raise NotImplementedError

    # d += coef mu(y), d += coef mean: the change of mean parameters being prepared.
    # Means are evaluated on the way, as evaluate_mean does.
    cdef int add_labeling(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        raise NotImplementedError

    cdef int add_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        raise NotImplementedError

    # |A_i^T d|^2
    cdef int change_norm(self, Workspace ws, Py_ssize_t i,
                         double* value) except -1 nogil:
        raise NotImplementedError

    # v += scale A_i^T d, u += average scale A_i^T d, w = truncation of v, d = 0.
    cdef int apply_change(self, Workspace ws, Py_ssize_t i, double scale,
                          double average) except -1 nogil:
        raise NotImplementedError

    # Whether gram_row is cheap: the example's Gram matrix is kept.
    cdef int has_gram(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # out[k] = <A_i^T (mu(y) - mu(y_i)), A_i^T (mu(z_k) - mu(y_i))> for n labelings z_k.
    cdef int gram_row(self, Workspace ws, Py_ssize_t i, const int32_t* y, Py_ssize_t n,
                      const int32_t* labelings, double* out) except -1 nogil:
        raise NotImplementedError


class DualSpace:
    """The dual variables of a model as one vector x, for methods that project.

    D(x) = <b, x> - |alpha w(x)|^2 / (2 alpha) over a convex set, where alpha w(x) is
    affine in x, and grad D(x) = slopes(w(x)) is affine in w.

    Attributes
    ----------
    center : ndarray
        The point that stands for w = 0.
    cost : int
        Oracle calls that one product of features and weights counts for.
    """

    def combine(self, x):
        """alpha w(x)"""
        raise NotImplementedError

    def slopes(self, w):
        """Gradient of D where the weights are w."""
        raise NotImplementedError

    def loss(self, x):
        """<b, x>"""
        raise NotImplementedError

    def project(self, x):
        """The point of the set next to x."""
        raise NotImplementedError

    def risk(self, w, slopes):
        """Mean structured hinge at weights w, whose slopes are given."""
        raise NotImplementedError

    def restrict(self, x, slopes, margin):
        """The dual with variables fixed that are at a bound, and want to be.

        Those are variables whose slope points out of the set by more than a margin.
        Returns the space of the others, with x as its centre, and their indices; None
        where variables are not independent of each other.
        """
        return None


class NonlinearLoss:
    """A mean loss of scores that are not linear in the weights.

    Attributes
    ----------
    n_examples : int
        Number of examples.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    nonsmooth : bool
        Whether the loss is the hinge; the model below smoothes it.
    diameter : float
        D: smoothing by m adds at most m D to the mean loss.
    """

    def initial_weights(self, random_state):
        """Flat weights to start from."""
        raise NotImplementedError

    def value(self, w, n_jobs=None):
        """Mean loss."""
        raise NotImplementedError

    def linearize(self, w):
        """Form the convex model, the loss of scores linearised at w."""
        raise NotImplementedError

    def set_smoothing(self, strength):
        """Smooth the model by so much from now on."""
        raise NotImplementedError

    def value_and_gradient(self, w, n_jobs=None):
        """Smoothed mean loss of the model, and its gradient."""
        raise NotImplementedError

    def example_gradient(self, i, w):
        """Gradient of the smoothed loss of the model on example i."""
        raise NotImplementedError


cdef class SmoothLoss:
    """A bound model with a smooth loss f_i: what solvers with gradients take.

    Attributes
    ----------
    model : BoundModel
        The model; its w are the weights.
    exact : ndarray of shape (n_examples,), bool
        Where the last value and gradient are those of the smooth loss, and not only
        of its K best labelings.
    support : ndarray of int or None
        Flat weights that exist, where they are not all of them; the others are zero.
    convex : bool
        Whether the loss is; else the expected mean parameters are not dual variables.
    nonsmooth : bool
        Whether the structured hinge is what is minimised, the smooth loss being only
        the means to it.
    diameter : float
        D: smoothing by m adds at most m D to the mean loss.
    expected_loss : float
        sum_i p_i E L_i at the last value and gradient: with the gradient g, a dual
        value of the hinge is expected_loss - |g|^2 / (2 alpha).
    """

    # What a solver may set the smoothing to, and whether a gradient can be followed one
    # example at a time.
    def set_smoothing(self, double strength):
        """Smooth by so much from now on."""
        raise NotImplementedError

    def start_visits(self, direction, bint anchored):
        """Prepare visits of single examples, the weights being

            w = s (v + (total - last) direction)

        row by row, where s and total are the solver's and last, kept here for each row,
        is the total when the row was last brought up to date.
        """
        raise NotImplementedError

    def finish_visits(self, double total):
        """Bring all rows up to date."""
        raise NotImplementedError

    # Bring the rows that example i reads up to date.
    cdef int catch_up(self, Py_ssize_t i, double total) except -1 nogil:
        raise NotImplementedError

    # d = E mu_i at weights `scale` v, minus E mu_i at the last value and gradient where
    # anchored, else minus mu_i(y_i): the change being prepared in the workspace.
    cdef int mean_change(self, Workspace ws, Py_ssize_t i, double scale,
                         bint anchored) except -1 nogil:
        raise NotImplementedError

    def value_and_gradient(self, gradient, n_jobs=None):
        """Mean loss at the weights; its gradient is written out."""
        raise NotImplementedError
