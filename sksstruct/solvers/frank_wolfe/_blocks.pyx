"""Dual variables of block-coordinate methods: a mixture of labelings for each example.

Two forms of a block. Plain Frank-Wolfe steps without a cache need only the mean
parameters mu_i, a sparse list of keys. All else keeps labelings and their weights, the
active set S_i (Osokin et al., 2016, Algorithms 3 and 4) and, with a cache, labelings
of weight zero (C_i of Algorithm 5, S_i a part of it), with the Gram matrix of their
features where it is asked for. `start_at` and `rescale` are steps of the
regularisation path (Algorithm 6, lines 3-8, and Proposition 1).
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sksstruct.models.protocols._base cimport BoundModel
from sksstruct.utils._arena cimport Arena


def fits(state, BoundModel model, bint means):
    """Whether exported duals are of sequences and labels like these, in this form."""
    return state.get("means") == means and state["signature"] == model.signature


cdef class Blocks:
    """The dual variables of all examples, in memory, in and out.

    Parameters
    ----------
    model : BoundModel
        The model with its data, started.
    alpha : float
        Regularisation.
    use_means : bool
        Whether blocks are mean parameters.
    cache, max_cached
        As in `sksstruct.solvers.BCFW`.
    """

    def __init__(self, BoundModel model, double alpha, *, use_means, cache, max_cached):
        cdef Py_ssize_t i, n
        self.model = model
        self.workspace = model.workspace()
        self.alpha = alpha
        self.cache, self.use_means, self.max_cached = cache, use_means, max_cached
        self.n_blocks = model.n_examples
        self.arena = Arena()
        self.blocks = <Block*> calloc(self.n_blocks, sizeof(Block))
        if self.blocks == NULL:
            raise MemoryError()
        self.losses_ = np.zeros(self.n_blocks)
        self.promises_ = np.zeros(self.n_blocks)
        self.losses, self.promises = self.losses_, self.promises_
        self.value = np.zeros(16)
        self.old_weight = np.zeros(16)
        self.mixture = np.zeros(16)
        self.decoded = np.zeros(model.max_size, dtype=np.int32)
        self.keys = np.zeros(model.max_keys, dtype=np.int32)
        if self.use_means:
            self.place = np.full(model.key_space, -1, dtype=np.int32)
        for i in range(self.n_blocks):
            model.y_true(i, &self.decoded[0])
            if self.use_means:
                n = model.indicator(i, &self.decoded[0], &self.keys[0])
                self._restart_means(&self.blocks[i], n)
            else:
                self._append(i, &self.decoded[0])
                self.blocks[i].weight[0] = 1.0

    def __dealloc__(self):
        free(self.blocks)

    # ---- the dual variables, in and out ----

    def export(self):
        """Dual variables as a dict of flat arrays; see `restore`."""
        cdef Py_ssize_t i, n, n_keys = 0, n_values = 0
        cdef Block* b
        counts = np.empty(self.n_blocks, dtype=np.intp)
        cdef Py_ssize_t[::1] count = counts
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            count[i] = b.n_keys if self.use_means else b.n
            n_values += count[i]
            n_keys += count[i] if self.use_means else count[i] * self.model._sizes[i]
        cdef int32_t[::1] keys = np.empty(n_keys, dtype=np.int32)
        cdef double[::1] values = np.empty(n_values)
        n_keys = n_values = 0
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            n = count[i] if self.use_means else count[i] * self.model._sizes[i]
            memcpy(&keys[n_keys], b.keys if self.use_means else b.labelings,
                   n * sizeof(int32_t))
            memcpy(&values[n_values], b.values if self.use_means else b.weight,
                   count[i] * sizeof(double))
            n_keys += n
            n_values += count[i]
        return {
            "means": bool(self.use_means),
            "signature": self.model.signature,
            "counts": counts,
            "keys": np.asarray(keys),
            "values": np.asarray(values),
        }

    def restore(self, state):
        """Start from exported dual variables; weights and losses are formed anew.

        Raises ValueError if the state is not accepted.
        """
        if not fits(state, self.model, self.use_means):
            raise ValueError("dual variables of another problem")
        cdef int32_t[::1] keys = np.array(state["keys"])
        cdef double[::1] values = np.array(state["values"])
        cdef const Py_ssize_t[::1] counts = state["counts"]
        cdef Py_ssize_t i, j, n, first_key = 0, first_value = 0
        cdef double value
        cdef Block* b
        self.iterate = 0.0
        # At w = 0 the value of a mixture is its loss.
        self.model.read_from(np.zeros_like(self.model.w))
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            n = counts[i]
            self.model.potentials(self.workspace, i)
            self.model.y_true(i, &self.decoded[0])
            self.model.add_labeling(self.workspace, i, &self.decoded[0], 1.0)
            if self.use_means:
                self._reserve_keys(b, n)
                memcpy(b.keys, &keys[first_key], n * sizeof(int32_t))
                memcpy(b.values, &values[first_value], n * sizeof(double))
                b.n_keys = n
                self.model.add_mean(self.workspace, i, n, b.keys, b.values, -1.0,
                                    &value)
                first_key += n
            else:
                b.n = b.n_gram = 0
                value = 0.0
                for j in range(n):
                    self._append(i, &keys[first_key])
                    b.weight[j] = values[first_value + j]
                    value += b.weight[j] * b.loss[j]
                    self.model.add_labeling(
                        self.workspace, i, &keys[first_key], -b.weight[j])
                    first_key += self.model._sizes[i]
            self.losses[i] = value
            first_value += n
            self.model.apply_change(
                self.workspace, i, self.model._example_weights[i] / self.alpha, 0.0)
        self.model.read_from(self.model.w)
        self.loss = float(self.model.example_weights @ self.losses_)

    def start_at(self, const int32_t[::1] labelings):
        """Put all weight on one labeling of each block; the weights must be zero."""
        cdef Py_ssize_t i, n
        cdef const int32_t* y
        cdef Block* b
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            y = &labelings[self.model._starts[i]]
            self.model.loss(i, y, &self.losses[i])
            self.model.potentials(self.workspace, i)
            self.model.y_true(i, &self.decoded[0])
            self.model.add_labeling(self.workspace, i, &self.decoded[0], 1.0)
            self.model.add_labeling(self.workspace, i, y, -1.0)
            self.model.apply_change(
                self.workspace, i, self.model._example_weights[i] / self.alpha, 0.0)
            if self.use_means:
                n = self.model.indicator(i, y, &self.keys[0])
                self._restart_means(b, n)
            else:
                b.n = b.n_gram = 0
                self._append(i, y)
                b.weight[0] = 1.0
        self.loss = float(self.model.example_weights @ self.losses_)
        self.oracle_calls += self.n_blocks

    def rescale(self, double share, double alpha):
        """Go on at another alpha, with this share of the duals, the rest on the truth.

        All weights are share alpha_old / alpha of what they were, and the losses share
        of it (Proposition 1 with share = alpha / alpha_old: the weights stay). Gaps are
        those of before.
        """
        cdef Py_ssize_t i, j, n
        cdef Block* b
        for i in range(self.n_blocks):
            b = &self.blocks[i]
            self.model.y_true(i, &self.decoded[0])
            self.promises[i] = INFINITY
            self.losses[i] *= share
            if share == 1.0:
                continue
            if self.use_means:
                n = self.model.indicator(i, &self.decoded[0], &self.keys[0])
                for j in range(b.n_keys):
                    b.values[j] *= share
                self._add_keys(b, n, 1.0 - share)
            else:
                for j in range(b.n):
                    b.weight[j] *= share
                j = self._find(b, self.model._sizes[i], &self.decoded[0])
                if j == b.n:
                    self._append(i, &self.decoded[0])
                b.weight[j] += 1.0 - share
        self.loss *= share
        self.model.v *= share * self.alpha / alpha
        if self.model.lower is not None:
            np.clip(self.model.v, self.model.lower, self.model.upper, out=self.model.w)
        self.alpha = alpha

    # ---- keeping labelings ----

    def add_known(self, const int32_t[::1] labelings):
        """Let a labeling of every block, in their order, be known."""
        cdef Py_ssize_t i
        cdef const int32_t* y
        with nogil:
            for i in range(self.n_blocks):
                y = &labelings[self.model._starts[i]]
                if self._find(&self.blocks[i], self.model._sizes[i],
                              y) == self.blocks[i].n:
                    self._append(i, y)
                    self.promises[i] = INFINITY
        self.oracle_calls += self.n_blocks

    cdef Py_ssize_t _find(self, Block* b, Py_ssize_t size,
                          const int32_t* y) noexcept nogil:
        cdef Py_ssize_t j, t
        for j in range(b.n):
            for t in range(size):
                if b.labelings[j * size + t] != y[t]:
                    break
            else:
                return j
        return b.n

    cdef int _append(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], capacity
        if b.n == b.capacity:
            capacity = 2 * b.capacity if b.capacity else 4
            b.labelings = <int32_t*> self.arena.grow(
                b.labelings, b.n * size * sizeof(int32_t),
                capacity * size * sizeof(int32_t))
            b.weight = <double*> self.arena.grow(
                b.weight, b.n * sizeof(double), capacity * sizeof(double))
            b.loss = <double*> self.arena.grow(
                b.loss, b.n * sizeof(double), capacity * sizeof(double))
            # rows of the Gram matrix get longer: it is formed again when asked for
            b.n_gram = 0
            b.gram = NULL
            b.capacity = capacity
            if capacity > self.value.shape[0]:
                with gil:
                    self._grow(capacity)
        memcpy(b.labelings + b.n * size, y, size * sizeof(int32_t))
        b.weight[b.n] = 0.0
        self.model.loss(i, y, &b.loss[b.n])
        b.n += 1
        return 0

    cdef int _grow(self, Py_ssize_t capacity) except -1:
        value = np.zeros(capacity)
        value[:self.value.shape[0]] = self.value
        self.value = value
        self.old_weight = np.zeros(capacity)
        self.mixture = np.zeros(capacity)
        return 0

    cdef int _extend_gram(self, Py_ssize_t i) except -1 nogil:
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, k, width = b.capacity
        if b.gram == NULL:
            b.gram = <double*> self.arena.take(width * width * sizeof(double))
            b.n_gram = 0
        for j in range(b.n_gram, b.n):
            self.model.gram_row(self.workspace, i, b.labelings + j * size, j + 1,
                                b.labelings, b.gram + j * width)
            for k in range(j):
                b.gram[k * width + j] = b.gram[j * width + k]
        b.n_gram = b.n
        return 0

    cdef int _drop(self, Py_ssize_t i) except -1 nogil:
        """Forget labelings of weight zero: all without a cache, else the lowest ones
        beyond max_cached. Their weight is zero, so that no iterate changes."""
        cdef Block* b = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, lowest
        if not self.cache:
            j = 0
            while j < b.n:
                if b.weight[j] <= 0.0:
                    self._remove(b, size, j)
                else:
                    j += 1
            return 0
        while b.n > self.max_cached:
            lowest = -1
            for j in range(b.n):
                if b.weight[j] <= 0.0 and (
                        lowest < 0 or self.value[j] < self.value[lowest]):
                    lowest = j
            if lowest < 0:
                return 0
            self._remove(b, size, lowest)
        return 0

    cdef void _remove(self, Block* b, Py_ssize_t size, Py_ssize_t j) noexcept nogil:
        """Put the last labeling in place of labeling j."""
        cdef Py_ssize_t last = b.n - 1, width = b.capacity, k
        if j != last:
            memcpy(b.labelings + j * size, b.labelings + last * size,
                   size * sizeof(int32_t))
            b.weight[j] = b.weight[last]
            b.loss[j] = b.loss[last]
            self.value[j] = self.value[last]
            if b.n_gram == b.n:
                for k in range(b.n):
                    b.gram[j * width + k] = b.gram[last * width + k]
                for k in range(b.n):
                    b.gram[k * width + j] = b.gram[k * width + last]
                b.gram[j * width + j] = b.gram[last * width + last]
            elif b.n_gram > j:
                b.n_gram = j
        b.n = last
        if b.n_gram > last:
            b.n_gram = last

    cdef int _reserve_keys(self, Block* b, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t capacity = b.key_capacity
        if n <= capacity:
            return 0
        capacity = n if n > 2 * capacity else 2 * capacity
        b.keys = <int32_t*> self.arena.grow(
            b.keys, b.n_keys * sizeof(int32_t), capacity * sizeof(int32_t))
        b.values = <double*> self.arena.grow(
            b.values, b.n_keys * sizeof(double), capacity * sizeof(double))
        b.key_capacity = capacity
        return 0

    cdef int _restart_means(self, Block* b, Py_ssize_t n) except -1 nogil:
        """The mixture becomes the labeling whose n keys are in self.keys."""
        b.n_keys = 0
        return self._add_keys(b, n, 1.0)

    cdef int _add_keys(self, Block* b, Py_ssize_t n, double g) except -1 nogil:
        """Add g to the mean parameters whose n keys are in self.keys."""
        cdef Py_ssize_t q, k
        self._reserve_keys(b, b.n_keys + n)
        for q in range(b.n_keys):
            self.place[b.keys[q]] = <int32_t> q
        for q in range(n):
            k = self.place[self.keys[q]]
            if k < 0:
                k = b.n_keys
                b.n_keys += 1
                b.keys[k] = self.keys[q]
                b.values[k] = 0.0
                self.place[self.keys[q]] = <int32_t> k
            b.values[k] += g
        for q in range(b.n_keys):
            self.place[b.keys[q]] = -1
        return 0
