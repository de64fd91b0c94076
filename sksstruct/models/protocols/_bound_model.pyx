"""The protocol of models: a linear map, its transpose, a loss and oracles.

A bound model holds data, but no weights and no state of an optimizer. In the notation
of Osokin et al. (2016), Sections 2 and 3.1:

    i, n                                examples 0 <= i < n, and their number
    y, y_i, z                           labelings; y_i is the observed one
    w                                   flat weights
    A_i                                 linear map from weights to potentials
    theta_i = A_i w                     potentials of example i
    mu_i(y)                             mean parameters: indicator of the parts of y
    L_i(y)                              loss of y
    H_i(y)  = L_i(y) + <theta_i, mu_i(y) - mu_i(y_i)>
    P(w)    = alpha/2 |w|^2 + sum_i p_i max_y H_i(y)

with example weights p_i >= 0 that sum to one (1/n without sample weights). Duals
are mean parameters mu_i, and w = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i).

A labeling is stored as `sizes[i]` integers. Mean parameters are sparse:
lists of (key, value), keys ascending and below `key_space`; `indicator` lists the keys
of a labeling in any order, at most `max_keys` keys.

A visit of example i calls, in this order,

    potentials      theta_i with the loss, read from the workspace's weights
    y_true, evaluate, decode             labelings and their values at theta_i
    add_labeling, add_mean               d, a change of mean parameters
    change_norm     |A_i^T d|^2
    apply_change    v += scale A_i^T d, into given `Weights`;  d = 0
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcmp

from sksstruct.models.protocols._weights cimport LazyWeights, Weights

from sksstruct.utils._layout import aligned_zeros


class WeightsFull(Exception):
    """Error of models that assign weights during training and have none left.

    The caller calls the `grow` method of the model, and begins again.
    """


cdef inline int decode_with_loss(BoundModel model, Workspace ws, Py_ssize_t i,
                                 int32_t* y, double* hinge) except -1 nogil:
    """Decode example i with the loss: write the labeling y with the largest H_i(y), and
    the structured hinge max_y H_i(y).
    """
    cdef double value, true_value
    model.potentials(ws, i)
    # the observed labeling is evaluated first, because `decode` overwrites y
    model.y_true(i, y)
    model.evaluate(ws, i, y, &true_value)
    model.decode(ws, i, y, &value)
    hinge[0] = value - true_value
    return 0


cdef class Workspace:
    """Scratch of one thread, and the weights for its potentials.

    Attributes
    ----------
    n_weights : int
        Number of weights.
    loss_scale : float
        Factor of the loss. Weights s w give the same labelings as w with the loss
        divided by s. Solvers use this to shrink weights without changing the vector.
    """

    def __cinit__(self):
        self._arrays = []

    # Memory that lives as long as the workspace. The address is valid even for size
    # zero; pages of memory are allocated when they are first written to.

    cdef double* zeros(self, Py_ssize_t size) except NULL:
        """Allocate zeros, aligned for SIMD vectors, and return their address."""
        cdef double[::1] view = aligned_zeros(max(size, 1))
        self._arrays.append(view)
        return &view[0]

    cdef int32_t* integers(self, Py_ssize_t size) except NULL:
        """Allocate integers that are zero, and return their address."""
        cdef int32_t[::1] view = np.zeros(max(size, 1), dtype=np.int32)
        self._arrays.append(view)
        return &view[0]

    cdef char* flags(self, Py_ssize_t size) except NULL:
        """Allocate flags that are not set, and return their address."""
        cdef char[::1] view = np.zeros(max(size, 1), dtype=np.int8)
        self._arrays.append(view)
        return &view[0]

    def read(self, w):
        """Form potentials from the flat weights w from now on."""
        cdef const double[::1] view = w
        if view.shape[0] != self.n_weights:
            raise ValueError(f"expected {self.n_weights} weights, got {view.shape[0]}")
        # this reference keeps the memory of w alive until the next call of `read`
        self._held = w
        self.w = &view[0]


cdef class BoundModel:
    """A model bound to training data.

    `Trainable` declares the attributes that all models for solvers have.

    Attributes
    ----------
    n_examples, n_weights : int
        Numbers of examples and of weights.
    sizes : ndarray of shape (n_examples,), intp
        Lengths of the labelings.
    starts : ndarray of shape (n_examples + 1,), intp
        First entry of each labeling in an array of all labelings.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    max_size, max_keys, key_space : int
        Length of the longest labeling, largest number of keys of a labeling, and a
        bound on the keys.
    visit_work : float
        Table entries that a call of the max oracle reads, on average.
    feature_scale : float
        Factor of the features in training; bounds on the weights of features are
        divided by this factor.
    oracle_bounds : dict or None
        Bounds on weights that the oracles need to be exact.
    surrogate : SmoothedHinge or None
        The loss that is minimized; None for the hinge.
    likelihood : bool
        Whether this is the negative log-likelihood, in which labelings have no loss
        L_i: potentials are theta_i alone.
    binder : callable or None
        ``binder(first, last)`` binds the model to a range of the examples, with the p_i
        of all examples; None if no caller needs it.
    completion : object or None
        Completes labelings that were observed in part, between rounds of training, as
        `TableCompletion` does. The hinge losses need the object; its methods are the
        oracle "completion".
    kept_factors : FactorModel, BinaryFactorModel or None
        The model's factors, which `sksstruct.models.roles.factor_model` forms once, as
        they hold the weights.
    row_size : int
        Number of weights that `catch_up` brings up to date together.
    """

    # Names of the model's oracles: "max" is the method `decode`, "topk" the method
    # `topk`. Functions of `sksstruct.models.roles` name the oracle that they need.
    oracles = ("max",)
    # The reason in error messages why an oracle is missing.
    oracle_note = None
    # Whether `views` reads data, beyond the layout of the weights.
    views_need_data = False
    # Whether labelings have lists of mean parameters: `indicator` and `add_mean`.
    has_means = True
    # The name of the solver that "auto" selects for this model; None if "auto" applies
    # its general rule.
    preferred_solver = None
    # Whether a hinge smoothed by its k best labelings has compiled sweeps, which take
    # less time than sums over all labelings.
    prefers_topk = False
    # Whether smoothing that a user requests by its name sums over all labelings, as the
    # k best labelings have a small share of the probability.
    prefers_sums = False
    # Number of natural parameters that `entropy_dual` has for all examples, and its
    # bytes of memory; None for models without such dual variables.
    entropy_dual_size = entropy_dual_bytes = None
    # Whether features are in a file, so that solvers put arrays of all positions into
    # files, too.
    on_disk = False
    # Indices of the flat weights that exist, or None if all exist; and flags of labels
    # that were not observed, or None if all were observed.
    support = unknown = None
    # Number of weights of one feature, padded: the row length of weight matrices.
    ld = 8
    # Whether labelings are Python objects that the model numbers in order of
    # appearance. `memory` returns these objects, and `recall` restores them.
    has_memory = False
    # Cost of a visit that calls the max oracle, relative to a visit of known labelings.
    oracle_cost = 2.0

    def set_sizes(self, sizes, example_weights):
        """Set the sizes of the labelings and the example weights p_i."""
        self.sizes = np.ascontiguousarray(sizes, dtype=np.intp)
        self.example_weights = np.ascontiguousarray(example_weights, dtype=np.float64)
        self._sizes = self.sizes
        self._example_weights = self.example_weights
        self.n_examples = len(self.sizes)
        self.max_size = self.sizes.max()
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._starts = self.starts
        self.feature_scale = 1.0

    def part(self, first, last):
        """Return the model bound to examples first <= i < last, with the same p_i."""
        if self.binder is None:
            raise ValueError(
                f"{type(self).__name__} cannot be cut into blocks of examples")
        model = self.binder(first, last)
        # estimators set these attributes after the model was bound
        model.surrogate, model.likelihood = self.surrogate, self.likelihood
        # weights exist if any example of the whole data has them
        if self.support is not None:
            model.support = self.support
        return model

    # ---- requests of solvers ----

    def topk(self, Workspace ws, Py_ssize_t i, Py_ssize_t k):
        """Return the k best labelings of an example as rows, and their values.

        Values include the loss. There are fewer than k if fewer labelings exist.
        """
        raise NotImplementedError

    def quick_ascent(self, alpha):
        """Return whether dual ascent is faster than L-BFGS even with few weights."""
        return False

    # ---- weights ----

    def workspace(self, w, training=True):
        """Return scratch for one thread.

        Parameters
        ----------
        w : ndarray of shape (n_weights,)
            Weights that potentials are formed from; `Workspace.read` changes them.
        training : bool, default=True
            Whether to allocate changes of mean parameters. Otherwise the workspace has
            memory for potentials only.
        """
        cdef Workspace ws = self._workspace(training)
        ws.n_weights, ws.loss_scale = self.n_weights, 1.0
        ws.read(w)
        return ws

    def _workspace(self, training):
        """Return a workspace of the model's class."""
        raise NotImplementedError

    def views(self, w):
        """Return named views of flat weights, in the shapes of fitted attributes."""
        raise NotImplementedError

    def box(self, bounds=None):
        """Return flat lower and upper bounds: the intersection of `bounds` and
        `oracle_bounds`.

        Parameters
        ----------
        bounds : dict or None
            A pair (lower, upper) for each named block of weights.

        Returns
        -------
        box : tuple of ndarray, or None
            None if there are no bounds.
        """
        # None without bounds: solvers then need not truncate weights
        given = [each for each in (bounds, self.oracle_bounds) if each is not None]
        if not given:
            return None
        flat = [self.flatten_bounds(each) for each in given]
        if bounds is not None and self.feature_scale != 1.0:
            for view in map(self.views, flat[0]):
                for name in {"coef", "transition_coef"} & set(view):
                    view[name] /= self.feature_scale
        # the intersection of the boxes
        lower = np.maximum.reduce([each[0] for each in flat])
        upper = np.minimum.reduce([each[1] for each in flat])
        if not (lower <= upper).all():
            raise ValueError(
                f"bounds leave no weights: the model needs {self.oracle_bounds}")
        return lower, upper

    def flatten_bounds(self, bounds):
        """Return flat lower and upper bounds for a dict of named blocks."""
        raise NotImplementedError

    @property
    def row_size(self):
        return self.n_weights

    @property
    def signature(self):
        """Data that agree if labelings of two problems are interchangeable."""
        return type(self).__name__, int(self.key_space), self.sizes.tobytes()

    # ---- labelings of a saved state ----

    def check_labelings(self, entries, const Py_ssize_t[::1] counts,
                        const int32_t[::1] keys):
        """Raise an error if an entry is not a labeling of its example."""
        cdef Py_ssize_t i, first = 0
        for i in range(self.n_examples):
            for _ in range(counts[i]):
                if not self.is_labeling(i, &keys[first]):
                    last = first + self._sizes[i]
                    raise entries.wrong(
                        f"keys[{first}:{last}]", np.asarray(keys[first:last]),
                        f"a labeling of example {i}")
                first += self._sizes[i]

    def check_keys(self, entries, const Py_ssize_t[::1] counts,
                   const int32_t[::1] keys):
        """Raise an error if a key belongs to no labeling of its example."""
        cdef Py_ssize_t i, k, first = 0
        for i in range(self.n_examples):
            for k in range(first, first + counts[i]):
                if not self.has_key(i, keys[k]):
                    raise entries.wrong(
                        f"keys[{k}]", keys[k], f"a key of example {i}")
            first += counts[i]

    # ---- sweeps ----

    def hinge(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop, double[::1] out):
        """Write the structured hinges max_y H_i(y) of examples start <= i < stop, at
        the workspace's weights.
        """
        cdef Py_ssize_t i
        cdef int32_t[::1] labeling = np.empty(self.max_size, dtype=np.int32)
        with nogil:
            for i in range(start, stop):
                decode_with_loss(self, ws, i, &labeling[0], &out[i])

    def decode_all(self, Workspace ws, Py_ssize_t start, Py_ssize_t stop,
                   int32_t[::1] labelings, double[::1] hinge, double[::1] losses):
        """Decode examples start <= i < stop with the loss.

        Writes labelings to labelings[starts[i]:starts[i + 1]], max_y H_i(y) to hinge,
        and the losses of the labelings to losses.
        """
        cdef Py_ssize_t i
        cdef int32_t* labeling
        with nogil:
            for i in range(start, stop):
                labeling = &labelings[self._starts[i]]
                decode_with_loss(self, ws, i, labeling, &hinge[i])
                self.loss(i, labeling, &losses[i])

    def gram(self, Workspace ws, Py_ssize_t i, const int32_t[:, ::1] labelings):
        """Return the Gram matrix of A_i^T (mu(y) - mu(y_i)), y being rows of labelings.

        `potentials` must have been called for example i.
        """
        cdef Py_ssize_t n = labelings.shape[0], k
        cdef double[:, ::1] out = np.empty((n, n))
        for k in range(n):
            self.gram_row(ws, i, &labelings[k, 0], n, &labelings[0, 0], &out[k, 0])
        return np.asarray(out)

    def add_difference(self, Workspace ws, const int32_t[::1] labelings, double scale,
                       double[::1] out):
        """out += scale sum_i p_i A_i^T (mu_i(y_i) - mu_i(labelings_i))"""
        cdef Py_ssize_t i
        cdef int32_t[::1] y_true = np.empty(self.max_size, dtype=np.int32)
        cdef const int32_t* labeling
        if out.shape[0] != self.n_weights:
            raise ValueError(f"expected {self.n_weights} weights, got {out.shape[0]}")
        with nogil:
            for i in range(self.n_examples):
                labeling = &labelings[self._starts[i]]
                self.y_true(i, &y_true[0])
                # near the optimum, most decoded labelings are right and change nothing
                if memcmp(labeling, &y_true[0], self._sizes[i] * sizeof(int32_t)) == 0:
                    continue
                self.add_labeling(ws, i, &y_true[0], 1.0)
                self.add_labeling(ws, i, labeling, -1.0)
                self.scatter(ws, i, scale * self._example_weights[i], &out[0])
                self.clear(ws, i)

    def sweep(self, Workspace ws, int32_t[::1] labels):
        """Call the max oracle of every example; return the sum of the maxima.

        Training needs at least this work in each pass, so that this work is a unit of
        the time that training takes.
        """
        cdef Py_ssize_t i
        cdef double value, total = 0.0
        with nogil:
            for i in range(self.n_examples):
                self.potentials(ws, i)
                self.decode(ws, i, &labels[0], &value)
                total += value
        return total

    # ---- one example ----

    # Prefetch the memory of an example: `soon` before its visit, and otherwise, a few
    # visits earlier, the pointers to this memory. Visits in random order would wait for
    # both. Prefetching does not change results.
    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil:
        pass

    # Load theta_i at the workspace's weights, with loss_scale times the loss added, so
    # that values of labelings are L_i(y) + <theta_i, mu(y)>.
    cdef int potentials(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # Max oracle: write a best labeling at the loaded potentials, and its value.
    cdef int decode(self, Workspace ws, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        raise NotImplementedError

    # Find the k best labelings, at potentials that this call loads; return their
    # number, which is below k if fewer labelings exist. Models without a compiled
    # oracle inherit this method, which calls `topk`.
    cdef Py_ssize_t best_labelings(
        self, Workspace ws, Py_ssize_t i, Py_ssize_t k, const int32_t** labelings,
        const double** values
    ) except -1 nogil:
        cdef const int32_t[:, ::1] rows
        cdef const double[::1] numbers
        with gil:
            # the workspace keeps the arrays behind the addresses alive
            rows, numbers = ws._best = self.topk(ws, i, k)
            if not rows.size:
                return 0
            labelings[0], values[0] = &rows[0, 0], &numbers[0]
            return rows.shape[0]

    # Write the observed labeling y_i.
    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        raise NotImplementedError

    # Write L_i(y).
    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        raise NotImplementedError

    # Write the value of a labeling, or of mean parameters, at the loaded potentials.
    cdef int evaluate(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        raise NotImplementedError

    cdef int evaluate_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        raise NotImplementedError

    # Exp oracle at the loaded potentials, which do not change. Write mu log sum_y
    # exp(value(y) / mu) to `value`, and to `means` the expected mean parameters under
    # the distribution proportional to exp(value(y) / mu), in the layout that the
    # model's smooth loss reads.
    cdef int expect(self, Workspace ws, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        raise NotImplementedError

    # Write the keys of mu(y), one for each part of y: a key that several parts share is
    # written several times. Return the number of keys that were written.
    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        raise NotImplementedError

    # Return whether y is a labeling of example i, and whether labelings of example i
    # may have a key: saved states may hold any numbers, which other methods do not
    # check.
    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        raise NotImplementedError

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        return 0 <= key < self.key_space

    # Add to d, the change of mean parameters in the workspace: d += coef mu(y), or
    # d += coef mean for a mean without repeated keys. `add_mean` also writes the value
    # of the mean at the loaded potentials, unless `value` is NULL.
    cdef int add_labeling(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        raise NotImplementedError

    cdef int add_mean(self, Workspace ws, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        raise NotImplementedError

    # d += change, in the layout of `expect`
    cdef int add_means(self, Workspace ws, Py_ssize_t i,
                       const double* change) except -1 nogil:
        raise NotImplementedError

    # Write |A_i^T d|^2, the squared norm of the change of the weights.
    cdef int change_norm(self, Workspace ws, Py_ssize_t i,
                         double* value) except -1 nogil:
        raise NotImplementedError

    # out += scale A_i^T d
    cdef int scatter(self, Workspace ws, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        raise NotImplementedError

    # Call `weights.touch` for the entries of v that changed: all entries, unless a
    # model overrides this method.
    cdef int touch(self, Workspace ws, Py_ssize_t i, Weights weights) except -1 nogil:
        weights.touch(0, self.n_weights)
        return 0

    # d = 0
    cdef int clear(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # Bring the weights that example i reads up to date, in rows of `row_size`: all
    # weights, unless a model overrides this method.
    cdef int catch_up(self, LazyWeights weights, Py_ssize_t i) except -1 nogil:
        weights.catch_up(0)
        return 0

    # v += scale A_i^T d, u += average scale A_i^T d, w = truncation of v, d = 0. Even
    # if scale is zero, d is cleared, as the next visit starts with an empty change.
    cdef int apply_change(self, Workspace ws, Py_ssize_t i, Weights weights,
                          double scale, double average) except -1 nogil:
        if scale != 0.0:
            self.scatter(ws, i, scale, weights._v)
            if weights._u != NULL:
                self.scatter(ws, i, average * scale, weights._u)
            if weights._asks:
                self.touch(ws, i, weights)
        return self.clear(ws, i)

    # Return whether `gram_row` takes little time for example i. Models that store Gram
    # matrices may compute the matrix of the example here.
    cdef int has_gram(self, Workspace ws, Py_ssize_t i) except -1 nogil:
        raise NotImplementedError

    # out[k] = <A_i^T (mu(y) - mu(y_i)), A_i^T (mu(z_k) - mu(y_i))> for n labelings z_k.
    cdef int gram_row(self, Workspace ws, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        raise NotImplementedError
