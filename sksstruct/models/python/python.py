"""Models written in Python, bound to data for solvers.

Outputs of an example are numbered in the order in which they first occur; the observed
output is number 0. A labeling is one number. Mean parameters are the weights of
outputs: their keys are numbers, too, and a change d is a list of (number, coefficient).
With joint feature vectors phi and the loss L_i(y),

    value(y) = L_i(y) + <w, phi(x_i, y)>
    g        = A_i^T d = sum of coefficient phi(x_i, y) over the list

Joint feature vectors are stored as long as memory lasts, and formed again when needed.
All of this runs in the interpreter, as the methods of the model do, so that the number
of their calls determines the time.
"""

import pickle
from copy import deepcopy
from uuid import uuid4

import numpy as np
from scipy import sparse

from sksstruct.models.protocols._bound_model import Workspace
from sksstruct.models.python._python import PythonModel
from sksstruct.models.tables._box import fill_bounds

# Largest memory of stored joint feature vectors, in bytes.
KEPT = 2**28
# Largest number of outputs of one example, as their numbers are keys.
MOST = 2**20
# Joint feature vectors are stored as sparse if less than this share of their entries is
# not zero: an index and a value take twice the memory of a value, and more time.
DENSE = 0.25


def fingerprint(y):
    """Return a hashable value that is the same for equal outputs."""
    if isinstance(y, np.ndarray):
        # bytes of an object array would be addresses
        return (
            ("array", y.dtype.str, y.shape, y.tobytes())
            if y.dtype != object
            else ("array", y.shape, tuple(map(fingerprint, y.ravel().tolist())))
        )
    if isinstance(y, (list, tuple)):
        return (type(y).__name__, *map(fingerprint, y))
    if isinstance(y, dict):
        # a frozenset, so that the order of the entries does not matter
        return (
            "dict",
            frozenset(
                (fingerprint(key), fingerprint(value)) for key, value in y.items()
            ),
        )
    try:
        hash(y)
    except TypeError:
        return pickle.dumps(y)
    if isinstance(y, (str, bytes, int, float, complex, frozenset, np.generic)):
        return y
    # the hash of an object without its own __eq__ is its address
    return y if type(y).__eq__ is not object.__eq__ else pickle.dumps(y)


class PythonWorkspace(Workspace):
    """The weights as an array for the model's methods, and a change of mean parameters.

    Parameters
    ----------
    n_weights : int
        Number of weights, or 0 if no changes are formed.
    """

    def __init__(self, n_weights):
        # d: a list of pairs (number of an output, coefficient)
        self.change = []
        # g = A_i^T d, and the indices of its entries that may be nonzero; None: all
        self.g, self.where = np.zeros(n_weights), None
        # whether g = A_i^T d was formed from the list
        self.formed = False

    def read(self, w):
        super().read(w)
        # methods of users get a read-only array, as solvers use the weights afterwards
        self.array = w.view()
        self.array.flags.writeable = False

    def add(self, number, coef):
        """d += coef times the indicator of an output"""
        self.change.append((number, coef))

    def clear(self):
        """d = 0"""
        self.change.clear()
        if self.formed:
            self.g[slice(None) if self.where is None else self.where] = 0.0
            self.formed = False


class BoundPython(PythonModel):
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

    has_memory = True

    def __init__(self, spec, X, Y, example_weights):
        self.spec, self.X, self.Y = spec, X, Y
        n_examples = len(X)
        if example_weights is None:
            example_weights = np.full(n_examples, 1.0 / n_examples)
        self.set_sizes(np.ones(n_examples, dtype=np.intp), example_weights)
        # for each example: outputs and losses by number, and numbers by fingerprint
        self.outputs = [[y] for y in Y]
        self.numbers = [{fingerprint(y): 0} for y in Y]
        self.losses = [[0.0] for _ in Y]
        # joint feature vectors by (example, number), and their total bytes
        self._features, self._bytes = {}, 0
        # the number of weights is the length of a joint feature vector
        self.set_weights(self.features(0, 0)[2], MOST)
        self.oracle_bounds = spec.bounds()
        self._token = uuid4().hex

    @property
    def signature(self):
        # numbers of outputs have no meaning in other problems
        return self._token

    def memory(self):
        """Return the numbered outputs and their losses, for `recall`."""
        return {
            "token": self._token,
            "outputs": [list(each) for each in self.outputs],
            "losses": [list(each) for each in self.losses],
        }

    def recall(self, memory):
        """Restore numbered outputs from `memory` of an object with these examples."""
        self._token = memory["token"]
        self.outputs = [list(each) for each in memory["outputs"]]
        self.losses = [list(each) for each in memory["losses"]]
        self.numbers = [
            {fingerprint(y): k for k, y in enumerate(each)} for each in self.outputs
        ]
        self._features, self._bytes = {}, 0

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
                f"bounds must be a dict of pairs (lower, upper), got {bounds!r}"
            )
        flat = [np.full(self.n_weights, limit) for limit in (-np.inf, np.inf)]
        fill_bounds(*(self.views(array) for array in flat), bounds)
        return flat

    def _workspace(self, training):
        return PythonWorkspace(self.n_weights if training else 0)

    # ---- joint feature vectors ----

    def features(self, i, number):
        """Return indices (None: all), values and length of a joint feature vector."""
        cached = self._features.get((i, number))
        return self._form_features(i, number) if cached is None else cached

    def _form_features(self, i, number):
        """Form, check and keep a joint feature vector."""
        phi = self.spec.joint_feature(self.X[i], self.outputs[i][number])
        if sparse.issparse(phi):
            vector = self._sparse_features(phi, i)
        else:
            vector = self._dense_features(phi, i)
        _, values, length = vector
        if self.n_weights and length != self.n_weights:
            raise ValueError(
                f"joint_feature of example {i} has {length} entries, that of the "
                f"first had {self.n_weights}"
            )
        if not np.isfinite(values).all():
            raise ValueError(
                f"joint_feature must be finite, and has NaN or infinity for example {i}"
            )
        # bytes of indices and values, and of the objects around them
        size = 16 * len(values) + 200
        # if the memory is used up, all vectors are dropped: which vectors will be used
        # again is unknown
        if self._bytes + size > KEPT:
            self._features.clear()
            self._bytes = 0
        self._features[i, number] = vector
        self._bytes += size
        return vector

    def _sparse_features(self, phi, i):
        """Check a sparse feature vector; return indices, values and length."""
        phi = sparse.csr_array(phi.reshape(1, -1) if phi.ndim == 1 else phi)
        if phi.shape[0] != 1:
            raise ValueError(
                f"joint_feature of example {i} has shape {phi.shape}, expected one row"
            )
        # phi is copied, as the user's method may reuse its arrays
        phi = phi.astype(np.float64, copy=True)
        # duplicate indices are summed, as ``g[where] += values`` adds only one of them
        phi.sum_duplicates()
        return phi.indices, phi.data, phi.shape[1]

    def _dense_features(self, phi, i):
        """Check a dense feature vector; return indices, values and length."""
        # phi is copied, as the user's method may reuse its array
        values = np.array(phi, dtype=np.float64)
        if values.ndim == 2 and values.shape[0] == 1:
            values = values[0]
        if values.ndim != 1 or not len(values):
            raise ValueError(
                f"joint_feature of example {i} has shape {values.shape}, expected "
                "a vector"
            )
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
                    "and not negative"
                )
            # y is copied, as oracles may return one object again with other contents
            self.outputs[i].append(deepcopy(y))
            self.losses[i].append(loss)
            self.numbers[i][key] = number
        return number

    def has_output(self, i, number):
        """Return whether an output of an example has this number."""
        return 0 <= number < len(self.outputs[i])

    def loss_of(self, i, number):
        """Return the loss of an output."""
        return self.losses[i][number]

    def value(self, ws, i, number):
        """Return the loss, times `loss_scale`, plus the score of an output."""
        where, values, _ = self.features(i, number)
        weights = ws.array if where is None else ws.array[where]
        return ws.loss_scale * self.losses[i][number] + float(values.dot(weights))

    # ---- oracles ----

    def find(self, ws, i):
        """Return the number of the output with the largest loss plus score."""
        weights, scale = ws.array, ws.loss_scale
        if scale == 0.0:
            return self.number(i, self.spec.decode(self.X[i], weights))
        # the user's oracle adds the loss once: weights w / s give the same labelings
        if scale != 1.0:
            weights = weights / scale
            weights.flags.writeable = False
        return self.number(
            i, self.spec.loss_augmented_decode(self.X[i], self.Y[i], weights)
        )

    def topk(self, ws, i, k):
        scale = ws.loss_scale
        weights = ws.array if scale == 1.0 else ws.array / scale
        found = self.spec.loss_augmented_topk(self.X[i], self.Y[i], weights, k)
        numbers = [self.number(i, y) for y in found]
        # a smoothed hinge needs distinct outputs: duplicates would change the function
        if not 0 < len(set(numbers)) == len(numbers) <= k:
            raise ValueError(
                f"loss_augmented_topk gives {len(numbers)} outputs of example {i}, "
                f"{len(set(numbers))} of them different; {k} were asked for"
            )
        values = np.array([self.value(ws, i, number) for number in numbers])
        return np.array(numbers, dtype=np.int32)[:, None], values

    # ---- changes of mean parameters ----

    def form(self, ws, i):
        """Set g to A_i^T d, and d to zero."""
        # with one dense vector, all entries of g may change
        touched, has_dense = [], False
        for number, coef in ws.change:
            where, values, _ = self.features(i, number)
            if where is None:
                ws.g += coef * values
                has_dense = True
            else:
                ws.g[where] += coef * values
                touched.append(where)
        ws.where = None
        if not has_dense:
            ws.where = (
                np.unique(np.concatenate(touched))
                if touched
                else np.zeros(0, dtype=np.intp)
            )
        ws.change.clear()
        ws.formed = True

    def norm(self, ws, i):
        """Set g to A_i^T d, and return |g|^2."""
        self.form(ws, i)
        g = ws.g if ws.where is None else ws.g[ws.where]
        return float(g.dot(g))

    def add_change(self, ws, i, scale, out):
        """out += scale A_i^T d, where `out` is the memory of an array"""
        # `norm` or an earlier call may have formed g already
        if not ws.formed:
            self.form(ws, i)
        where = slice(None) if ws.where is None else ws.where
        np.frombuffer(out)[where] += scale * ws.g[where]

    # ---- inner products ----

    def products(self, ws, i, y, labelings):
        """Return the inner products of `gram_row` as a list."""
        y_true = self.features(i, 0)
        # the list of changes is empty, as Gram rows are formed before steps
        ws.change += [(y, 1.0), (0, -1.0)]
        self.form(ws, i)
        row, base = [], None
        # the observed output is first, as its product is subtracted from all products
        for number in [0, *labelings]:
            where, values, _ = y_true if number == 0 else self.features(i, number)
            product = float(values.dot(ws.g if where is None else ws.g[where]))
            base = product if base is None else base
            row.append(product - base)
        ws.clear()
        return row[1:]
