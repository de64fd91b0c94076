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

from sksstruct.models.protocols._bound_model cimport BoundModel
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.utils._arena cimport Arena

# Labelings that scratch has room for to begin with, and a block when it needs some.
cdef Py_ssize_t SCRATCH = 16, FIRST_CAPACITY = 4


def fits(state, BoundModel model, bint means):
    """Whether exported duals are of sequences and labels like these, in this form."""
    return state.get("means") == means and state["signature"] == model.signature


cdef class Blocks:
    """The dual variables of all examples, in memory, in and out.

    All weight is on the observed labelings to begin with, so that w = 0.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    weights : Weights
        Zero; changes of the duals go there.
    alpha : float
        Regularisation.
    use_means : bool
        Whether blocks are mean parameters.
    cache, max_cached
        As in `sksstruct.solvers.BCFW`.
    """

    def __init__(self, BoundModel model, Weights weights, double alpha, *, use_means,
                 cache, max_cached):
        cdef Py_ssize_t i, n
        self.model, self.weights, self.alpha = model, weights, alpha
        self.workspace = model.workspace(weights.w)
        self.cache, self.use_means, self.max_cached = cache, use_means, max_cached
        self.n_blocks = model.n_examples
        self.arena = Arena()
        self.blocks = <Block*> calloc(self.n_blocks, sizeof(Block))
        if self.blocks == NULL:
            raise MemoryError()
        self.losses_ = np.zeros(self.n_blocks)
        self.promises_ = np.zeros(self.n_blocks)
        self.losses, self.promises = self.losses_, self.promises_
        self.value = np.zeros(SCRATCH)
        self.old_weight = np.zeros(SCRATCH)
        self.mixture = np.zeros(SCRATCH)
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
        cdef Block* block
        counts = np.empty(self.n_blocks, dtype=np.intp)
        cdef Py_ssize_t[::1] count = counts
        for i in range(self.n_blocks):
            block = &self.blocks[i]
            count[i] = block.n_keys if self.use_means else block.n
            n_values += count[i]
            n_keys += count[i] if self.use_means else count[i] * self.model._sizes[i]
        cdef int32_t[::1] keys = np.empty(n_keys, dtype=np.int32)
        cdef double[::1] values = np.empty(n_values)
        n_keys = n_values = 0
        for i in range(self.n_blocks):
            block = &self.blocks[i]
            n = count[i] if self.use_means else count[i] * self.model._sizes[i]
            memcpy(&keys[n_keys], block.keys if self.use_means else block.labelings,
                   n * sizeof(int32_t))
            memcpy(&values[n_values], block.values if self.use_means else block.weight,
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
        cdef Py_ssize_t i, first_key = 0, first_value = 0
        self.iterate = 0.0
        # At w = 0 the value of a mixture is its loss.
        self.workspace.read(np.zeros_like(self.weights.w))
        for i in range(self.n_blocks):
            self.model.potentials(self.workspace, i)
            self.model.y_true(i, &self.decoded[0])
            self.model.add_labeling(self.workspace, i, &self.decoded[0], 1.0)
            self.losses[i] = self._restore_block(
                i, counts[i], &keys[first_key], &values[first_value])
            self.model.apply_change(
                self.workspace, i, self.weights,
                self.model._example_weights[i] / self.alpha, 0.0)
            first_key += counts[i] * (1 if self.use_means else self.model._sizes[i])
            first_value += counts[i]
        self.workspace.read(self.weights.w)
        self.loss = float(self.model.example_weights @ self.losses_)

    cdef double _restore_block(self, Py_ssize_t i, Py_ssize_t n, const int32_t* keys,
                               const double* values) except? -1.0:
        """Take over n keys, or labelings, with their weights; returns their loss.

        They are subtracted from the change that is being prepared.
        """
        cdef Block* block = &self.blocks[i]
        cdef double value = 0.0
        cdef Py_ssize_t j
        if self.use_means:
            self._reserve_keys(block, n)
            memcpy(block.keys, keys, n * sizeof(int32_t))
            memcpy(block.values, values, n * sizeof(double))
            block.n_keys = n
            self.model.add_mean(self.workspace, i, n, block.keys, block.values, -1.0,
                                &value)
            return value
        block.n = block.n_gram = 0
        for j in range(n):
            self._append(i, keys)
            block.weight[j] = values[j]
            value += block.weight[j] * block.loss[j]
            self.model.add_labeling(self.workspace, i, keys, -block.weight[j])
            keys += self.model._sizes[i]
        return value

    def start_at(self, const int32_t[::1] labelings):
        """Put all weight on one labeling of each block; the weights must be zero."""
        cdef Py_ssize_t i
        cdef const int32_t* y
        for i in range(self.n_blocks):
            y = &labelings[self.model._starts[i]]
            self.model.loss(i, y, &self.losses[i])
            self.model.potentials(self.workspace, i)
            self.model.y_true(i, &self.decoded[0])
            self.model.add_labeling(self.workspace, i, &self.decoded[0], 1.0)
            self.model.add_labeling(self.workspace, i, y, -1.0)
            self.model.apply_change(
                self.workspace, i, self.weights,
                self.model._example_weights[i] / self.alpha, 0.0)
            self._put_weight_on(i, y)
        self.loss = float(self.model.example_weights @ self.losses_)
        self.oracle_calls += self.n_blocks

    cdef int _put_weight_on(self, Py_ssize_t i, const int32_t* y) except -1:
        """Let a block be one labeling."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t n
        if self.use_means:
            n = self.model.indicator(i, y, &self.keys[0])
            return self._restart_means(block, n)
        block.n = block.n_gram = 0
        self._append(i, y)
        block.weight[0] = 1.0
        return 0

    def rescale(self, double share, double alpha):
        """Go on at another alpha, with a share of the duals, the rest on y_i.

        All weights are share alpha_old / alpha of what they were, and the losses share
        of it (Proposition 1 with share = alpha / alpha_old: the weights stay). Gaps are
        those of before.
        """
        cdef Py_ssize_t i, j, n
        cdef Block* block
        for i in range(self.n_blocks):
            block = &self.blocks[i]
            self.model.y_true(i, &self.decoded[0])
            self.promises[i] = INFINITY
            self.losses[i] *= share
            if share == 1.0:
                continue
            if self.use_means:
                n = self.model.indicator(i, &self.decoded[0], &self.keys[0])
                for j in range(block.n_keys):
                    block.values[j] *= share
                self._add_keys(block, n, 1.0 - share)
            else:
                for j in range(block.n):
                    block.weight[j] *= share
                j = self._find(block, self.model._sizes[i], &self.decoded[0])
                if j == block.n:
                    self._append(i, &self.decoded[0])
                block.weight[j] += 1.0 - share
        self.loss *= share
        self.weights.set(self.weights.v * (share * self.alpha / alpha))
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

    cdef Py_ssize_t _find(self, Block* block, Py_ssize_t size,
                          const int32_t* y) noexcept nogil:
        """Number of a labeling in the block; the number of labelings where it is new.
        """
        cdef Py_ssize_t j, t
        for j in range(block.n):
            for t in range(size):
                if block.labelings[j * size + t] != y[t]:
                    break
            else:
                return j
        return block.n

    cdef int _append(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        """Let a block know one more labeling, without weight."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i]
        if block.n == block.capacity:
            self._widen(block, size)
        memcpy(block.labelings + block.n * size, y, size * sizeof(int32_t))
        block.weight[block.n] = 0.0
        self.model.loss(i, y, &block.loss[block.n])
        block.n += 1
        return 0

    cdef int _widen(self, Block* block, Py_ssize_t size) except -1 nogil:
        """Twice the capacity for labelings."""
        cdef Py_ssize_t n = block.n
        cdef Py_ssize_t capacity = 2 * n if n else FIRST_CAPACITY
        block.labelings = <int32_t*> self.arena.grow(
            block.labelings, n * size * sizeof(int32_t),
            capacity * size * sizeof(int32_t))
        block.weight = <double*> self.arena.grow(
            block.weight, n * sizeof(double), capacity * sizeof(double))
        block.loss = <double*> self.arena.grow(
            block.loss, n * sizeof(double), capacity * sizeof(double))
        # rows of the Gram matrix get longer: it is formed again when asked for
        block.n_gram = 0
        block.gram = NULL
        block.capacity = capacity
        if capacity > self.value.shape[0]:
            with gil:
                self._grow_scratch(capacity)
        return 0

    cdef int _grow_scratch(self, Py_ssize_t capacity) except -1:
        """Scratch for more labelings; the values of those so far stay."""
        value = np.zeros(capacity)
        value[:self.value.shape[0]] = self.value
        self.value = value
        self.old_weight = np.zeros(capacity)
        self.mixture = np.zeros(capacity)
        return 0

    cdef int _extend_gram(self, Py_ssize_t i) except -1 nogil:
        """Rows of the Gram matrix for the labelings that are new since last time."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, k, width = block.capacity
        if block.gram == NULL:
            block.gram = <double*> self.arena.take(width * width * sizeof(double))
            block.n_gram = 0
        for j in range(block.n_gram, block.n):
            self.model.gram_row(self.workspace, i, block.labelings + j * size, j + 1,
                                block.labelings, block.gram + j * width)
            for k in range(j):
                block.gram[k * width + j] = block.gram[j * width + k]
        block.n_gram = block.n
        return 0

    cdef int _drop(self, Py_ssize_t i) except -1 nogil:
        """Forget labelings of weight zero: all without a cache, else the lowest ones
        beyond max_cached. Their weight is zero, so that no iterate changes."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, lowest
        if not self.cache:
            j = 0
            while j < block.n:
                if block.weight[j] <= 0.0:
                    self._remove(block, size, j)
                else:
                    j += 1
            return 0
        while block.n > self.max_cached:
            lowest = -1
            for j in range(block.n):
                if block.weight[j] <= 0.0 and (
                        lowest < 0 or self.value[j] < self.value[lowest]):
                    lowest = j
            if lowest < 0:
                return 0
            self._remove(block, size, lowest)
        return 0

    cdef void _remove(self, Block* block, Py_ssize_t size,
                      Py_ssize_t j) noexcept nogil:
        """Put the last labeling in place of labeling j."""
        cdef Py_ssize_t last = block.n - 1
        if j != last:
            memcpy(block.labelings + j * size, block.labelings + last * size,
                   size * sizeof(int32_t))
            block.weight[j] = block.weight[last]
            block.loss[j] = block.loss[last]
            self.value[j] = self.value[last]
            if block.n_gram == block.n:
                self._replace_in_gram(block, j, last)
            elif block.n_gram > j:
                # the last labeling has no row yet, so what stands at j is unknown
                block.n_gram = j
        block.n = last
        if block.n_gram > last:
            block.n_gram = last

    cdef void _replace_in_gram(self, Block* block, Py_ssize_t j,
                               Py_ssize_t last) noexcept nogil:
        """Let row and column j of the Gram matrix be the last ones."""
        cdef Py_ssize_t k, width = block.capacity
        for k in range(block.n):
            block.gram[j * width + k] = block.gram[last * width + k]
        for k in range(block.n):
            block.gram[k * width + j] = block.gram[k * width + last]
        block.gram[j * width + j] = block.gram[last * width + last]

    # ---- mean parameters ----

    cdef int _reserve_keys(self, Block* block, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t capacity = block.key_capacity
        if n <= capacity:
            return 0
        capacity = n if n > 2 * capacity else 2 * capacity
        block.keys = <int32_t*> self.arena.grow(
            block.keys, block.n_keys * sizeof(int32_t), capacity * sizeof(int32_t))
        block.values = <double*> self.arena.grow(
            block.values, block.n_keys * sizeof(double), capacity * sizeof(double))
        block.key_capacity = capacity
        return 0

    cdef int _restart_means(self, Block* block, Py_ssize_t n) except -1 nogil:
        """The mixture becomes the labeling whose n keys are in self.keys."""
        block.n_keys = 0
        return self._add_keys(block, n, 1.0)

    cdef int _add_keys(self, Block* block, Py_ssize_t n, double step) except -1 nogil:
        """Add step to the mean parameters whose n keys are in self.keys."""
        cdef Py_ssize_t q, where
        self._reserve_keys(block, block.n_keys + n)
        for q in range(block.n_keys):
            self.place[block.keys[q]] = <int32_t> q
        for q in range(n):
            where = self.place[self.keys[q]]
            if where < 0:
                where = block.n_keys
                block.n_keys += 1
                block.keys[where] = self.keys[q]
                block.values[where] = 0.0
                self.place[self.keys[q]] = <int32_t> where
            block.values[where] += step
        # as it was: no entry of the next block is known
        for q in range(block.n_keys):
            self.place[block.keys[q]] = -1
        return 0
