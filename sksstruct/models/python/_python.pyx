"""Models that are written in Python, as solvers see them.

Outputs of an example are numbered in the order in which they first occur. The observed
one has the number 0. A labeling is one number. Mean parameters are the weights of
outputs: keys are numbers again, and a change d is a list of (number, coefficient). With
joint feature vectors phi and the loss L_i(y),

    value(y) = L_i(y) + <w, phi(x_i, y)>
    g        = A_i^T d = sum of coefficient phi(x_i, y) over the list

Joint feature vectors are kept while their memory lasts; others are formed again. All
of this needs the interpreter, as the methods of the model do. What counts is how often
these are called.
"""

import pickle
from copy import deepcopy
from uuid import uuid4

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace

from sksstruct.models.tables._box import fill_bounds

# Bytes of joint feature vectors that are kept.
KEPT = 2**28
# Outputs of one example, at most: their numbers are keys, which have a bound.
MOST = 2**20
# Vectors are kept as sparse ones if less than this part of them is not zero: an index
# and a value take twice the memory of a value, and more time.
DENSE = 0.25


def fingerprint(y):
    """Return a hashable value that is the same for equal outputs."""
    if isinstance(y, np.ndarray):
        # bytes of objects are addresses
        return ("array", y.dtype.str, y.shape, y.tobytes()) if y.dtype != object else (
            "array", y.shape, tuple(map(fingerprint, y.ravel().tolist())))
    if isinstance(y, (list, tuple)):
        return (type(y).__name__, *map(fingerprint, y))
    if isinstance(y, dict):
        # equal whatever the order of the entries
        return ("dict", frozenset((fingerprint(key), fingerprint(value))
                                  for key, value in y.items()))
    try:
        hash(y)
    except TypeError:
        return pickle.dumps(y)
    if isinstance(y, (str, bytes, int, float, complex, frozenset, np.generic)):
        return y
    # the hash of other objects may be their address
    return y if type(y).__eq__ is not object.__eq__ else pickle.dumps(y)


cdef class PythonWorkspace(Workspace):
    """The weights as an array for the model's methods, and a change of them."""

    # what scores are of
    cdef object array
    # d, of (number, coefficient)
    cdef list change
    # A_i^T d, and its entries that may not be zero; None for all
    cdef object g, where
    # whether g has taken over d
    cdef bint formed

    def read(self, w):
        Workspace.read(self, w)
        # a user's methods see it, and solvers go on with these weights
        self.array = w.view()
        self.array.flags.writeable = False


cdef class BoundPython(BoundModel):
    """A `StructuredModel` bound to data.

    Parameters
    ----------
    spec : StructuredModel
        The model.
    X, Y : list
        Inputs and observed outputs.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    """

    cdef readonly object spec, X, Y
    # for each example: outputs and their losses by number, and numbers by fingerprint
    cdef list outputs, losses, numbers
    # joint feature vectors by (example, number), and the memory that they take
    cdef dict _kept
    cdef Py_ssize_t _bytes
    cdef object _token

    def __init__(self, spec, X, Y, example_weights):
        self.spec, self.X, self.Y = spec, X, Y
        n_examples = len(X)
        if example_weights is None:
            example_weights = np.full(n_examples, 1.0 / n_examples)
        self.set_sizes(np.ones(n_examples, dtype=np.intp), example_weights)
        # what a visit takes is not known; oracles in Python are never cheap
        self.max_keys, self.key_space, self.visit_work = 1, MOST, 1e6
        self.outputs = [[y] for y in Y]
        self.numbers = [{fingerprint(y): 0} for y in Y]
        self.losses = [[0.0] for _ in Y]
        self._kept, self._bytes = {}, 0
        # only a feature vector tells how many weights there are
        self.n_weights = self.features(0, 0)[2]
        self.oracle_bounds = spec.bounds()
        self._token = uuid4().hex

    @property
    def signature(self):
        # numbers of outputs mean nothing to another problem
        return self._token

    has_memory = True

    def memory(self):
        """Return the outputs that the numbers denote, for another object."""
        return {
            "token": self._token,
            "outputs": [list(each) for each in self.outputs],
            "losses": [list(each) for each in self.losses],
        }

    def recall(self, memory):
        """Continue with the outputs that another object found for the same examples."""
        self._token = memory["token"]
        self.outputs = [list(each) for each in memory["outputs"]]
        self.losses = [list(each) for each in memory["losses"]]
        self.numbers = [
            {fingerprint(y): k for k, y in enumerate(each)} for each in self.outputs
        ]
        self._kept, self._bytes = {}, 0

    @property
    def oracles(self):
        return ("max", "topk") if self.spec._has_topk else ("max",)

    @property
    def oracle_note(self):
        return self.spec._oracle_note

    def views(self, w):
        return {"coef": w}

    def flatten_bounds(self, bounds):
        if not isinstance(bounds, dict):
            raise ValueError(
                f"bounds must be a dict of pairs (lower, upper), got {bounds!r}")
        flat = [np.full(self.n_weights, limit) for limit in (-np.inf, np.inf)]
        fill_bounds(*(self.views(array) for array in flat), bounds)
        return flat

    def _workspace(self, training):
        cdef PythonWorkspace ws = PythonWorkspace()
        ws.change, ws.formed = [], False
        ws.g = np.zeros(self.n_weights) if training else None
        return ws

    # ---- joint feature vectors ----

    def features(self, i, number):
        """Return indices (None: all), values and length of a joint feature vector."""
        found = self._kept.get((i, number))
        if found is not None:
            return found
        phi = self.spec.joint_feature(self.X[i], self.outputs[i][number])
        if sparse.issparse(phi):
            found = self._sparse_features(phi, i)
        else:
            found = self._dense_features(phi, i)
        _, values, length = found
        if self.n_weights and length != self.n_weights:
            raise ValueError(
                f"joint_feature of example {i} has {length} entries, that of the "
                f"first had {self.n_weights}")
        if not np.isfinite(values).all():
            raise ValueError(f"joint_feature of example {i} is not finite")
        # indices and values, and the objects around them
        size = 16 * len(values) + 200
        # all of them: which ones will be read again is not known
        if self._bytes + size > KEPT:
            self._kept.clear()
            self._bytes = 0
        self._kept[i, number] = found
        self._bytes += size
        return found

    def _sparse_features(self, phi, i):
        """Check a sparse feature vector; return indices, values and length."""
        phi = sparse.csr_array(phi.reshape(1, -1) if phi.ndim == 1 else phi)
        if phi.shape[0] != 1:
            raise ValueError(
                f"joint_feature of example {i} has shape {phi.shape}, expected one "
                "row")
        # a copy, as the caller may use its arrays again
        phi = phi.astype(np.float64, copy=True)
        # an index that is there twice would be added once only
        phi.sum_duplicates()
        return phi.indices, phi.data, phi.shape[1]

    def _dense_features(self, phi, i):
        """Check a dense feature vector; return indices, values and length."""
        # a copy here too
        values = np.array(phi, dtype=np.float64)
        if values.ndim == 2 and values.shape[0] == 1:
            values = values[0]
        if values.ndim != 1 or not len(values):
            raise ValueError(
                f"joint_feature of example {i} has shape {values.shape}, expected "
                "a vector")
        if np.count_nonzero(values) < DENSE * len(values):
            where = np.flatnonzero(values)
            return where, values[where], len(values)
        return None, values, len(values)

    # ---- outputs and their numbers ----

    def number(self, i, y):
        """Return the number of an output; new outputs get a new number."""
        if y is None:
            raise ValueError(f"the oracle returned None for example {i}")
        key = fingerprint(y)
        number = self.numbers[i].get(key)
        if number is None:
            number = len(self.outputs[i])
            if number == MOST:
                raise ValueError(f"more than {MOST} different outputs of example {i}")
            loss = float(self.spec._loss_at(self.X[i], self.Y[i], y))
            if not 0.0 <= loss < np.inf:
                raise ValueError(
                    f"loss of an output of example {i} is {loss}: it must be finite "
                    "and not negative")
            # a copy: oracles may return the same object, changed
            self.outputs[i].append(deepcopy(y))
            self.losses[i].append(loss)
            self.numbers[i][key] = number
        return number

    def value(self, PythonWorkspace ws, i, number):
        """Return the loss and score of an output at the weights."""
        where, values, _ = self.features(i, number)
        weights = ws.array if where is None else ws.array[where]
        return ws.loss_scale * self.losses[i][number] + float(values @ weights)

    # ---- oracles ----

    def find(self, PythonWorkspace ws, i):
        """Return the number of the best output, with the loss."""
        weights, scale = ws.array, ws.loss_scale
        if scale == 0.0:
            return self.number(i, self.spec.decode(self.X[i], weights))
        # a user's oracle has the loss once: weights w / s give the same labelings
        if scale != 1.0:
            weights = weights / scale
            weights.flags.writeable = False
        return self.number(
            i, self.spec.loss_augmented_decode(self.X[i], self.Y[i], weights))

    def topk(self, Workspace workspace, Py_ssize_t i, Py_ssize_t k):
        ws = <PythonWorkspace> workspace
        scale = ws.loss_scale
        weights = ws.array if scale == 1.0 else ws.array / scale
        found = self.spec.loss_augmented_topk(self.X[i], self.Y[i], weights, k)
        numbers = [self.number(i, y) for y in found]
        # a smoothed hinge that counts an output twice is another function
        if not 0 < len(set(numbers)) == len(numbers) <= k:
            raise ValueError(
                f"loss_augmented_topk gives {len(numbers)} outputs of example {i}, "
                f"{len(set(numbers))} of them different; {k} were asked for")
        values = np.array([self.value(ws, i, number) for number in numbers])
        return np.array(numbers, dtype=np.int32)[:, None], values

    # ---- the interface of solvers: potentials and labelings ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        # the methods of the model read weights, and there is nothing to prepare
        return 0

    cdef int decode(self, Workspace workspace, Py_ssize_t i, int32_t* y,
                    double* value) except -1 nogil:
        with gil:
            y[0] = self.find(workspace, i)
            value[0] = self.value(workspace, i, y[0])
        return 0

    cdef int y_true(self, Py_ssize_t i, int32_t* y) except -1 nogil:
        y[0] = 0
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        with gil:
            value[0] = self.losses[i][y[0]]
        return 0

    cdef int evaluate(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      double* value) except -1 nogil:
        with gil:
            value[0] = self.value(workspace, i, y[0])
        return 0

    cdef int evaluate_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                           const int32_t* keys, const double* values,
                           double* value) except -1 nogil:
        cdef Py_ssize_t k
        with gil:
            value[0] = 0.0
            for k in range(n_keys):
                value[0] += values[k] * self.value(workspace, i, keys[k])
        return 0

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        with gil:
            return 0 <= y[0] < len(self.outputs[i])

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        with gil:
            return 0 <= key < len(self.outputs[i])

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        keys[0] = y[0]
        return 1

    # ---- the interface of solvers: changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        with gil:
            (<PythonWorkspace> workspace).change.append((y[0], coef))
        return 0

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef Py_ssize_t k
        with gil:
            for k in range(n_keys):
                (<PythonWorkspace> workspace).change.append(
                    (keys[k], coef * values[k]))
        if value == NULL:
            return 0
        return self.evaluate_mean(workspace, i, n_keys, keys, values, value)

    def form(self, PythonWorkspace ws, i):
        """g = A_i^T d, d = 0"""
        # one dense vector, and all entries of g may change
        touched, every = [], False
        for number, coef in ws.change:
            where, values, _ = self.features(i, number)
            if where is None:
                ws.g += coef * values
                every = True
            else:
                ws.g[where] += coef * values
                touched.append(where)
        ws.where = None
        if not every:
            ws.where = (np.unique(np.concatenate(touched)) if touched
                        else np.zeros(0, dtype=np.intp))
        ws.change.clear()
        ws.formed = True

    def norm(self, PythonWorkspace ws):
        """|A_i^T d|^2"""
        g = ws.g if ws.where is None else ws.g[ws.where]
        return float(g @ g)

    def clear_formed(self, PythonWorkspace ws):
        """Forget the change that was formed."""
        ws.g[slice(None) if ws.where is None else ws.where] = 0.0
        ws.formed = False

    cdef int change_norm(self, Workspace workspace, Py_ssize_t i,
                         double* value) except -1 nogil:
        with gil:
            self.form(workspace, i)
            value[0] = self.norm(workspace)
        return 0

    cdef int scatter(self, Workspace workspace, Py_ssize_t i, double scale,
                     double* out) except -1 nogil:
        cdef Py_ssize_t n = self.n_weights
        with gil:
            ws = <PythonWorkspace> workspace
            # not twice: a step may have asked for the norm, or scattered before
            if not ws.formed:
                self.form(ws, i)
            where = slice(None) if ws.where is None else ws.where
            np.asarray(<double[:n]> out)[where] += scale * ws.g[where]
        return 0

    cdef int clear(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        with gil:
            (<PythonWorkspace> workspace).change.clear()
            if (<PythonWorkspace> workspace).formed:
                self.clear_formed(workspace)
        return 0

    # ---- the interface of solvers: inner products ----

    cdef int has_gram(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        # products of vectors that are kept, against one more call of the oracle
        return 1

    def products(self, PythonWorkspace ws, i, y, labelings):
        """Return a row of the Gram matrix, `gram_row`, as a list."""
        y_true = self.features(i, 0)
        # the scratch of changes is free: rows are formed before a step is prepared
        ws.change += [(y, 1.0), (0, -1.0)]
        self.form(ws, i)
        row, base = [], None
        # the observed output first: all products are relative to its own
        for number in [0, *labelings]:
            where, values, _ = y_true if number == 0 else self.features(i, number)
            product = float(values @ (ws.g if where is None else ws.g[where]))
            base = product if base is None else base
            row.append(product - base)
        self.clear_formed(ws)
        return row[1:]

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef Py_ssize_t k
        with gil:
            row = self.products(
                workspace, i, y[0], [labelings[k] for k in range(n_labelings)])
            for k in range(n_labelings):
                out[k] = row[k]
        return 0
