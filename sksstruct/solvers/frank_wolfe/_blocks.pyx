"""Dual variables of block-coordinate methods: a mixture of labelings for each example.

The block of an example has one of two forms. Plain Frank-Wolfe steps without a cache
need only the mean parameters mu_i, a sparse list of keys and values. All other options
store labelings and their weights alpha_i: the active set S_i (Osokin et al., 2016,
Algorithms 3 and 4), with a cache also labelings of weight zero (C_i of Algorithm 5, a
superset of S_i), and for several steps the Gram matrix of their features. `start_at`
and `rescale` are steps of the regularization path (Algorithm 6, lines 3-8, and
Proposition 1).

Below, j and k number the labelings of a block, which have `size` labels each, and y is
a labeling. The loss of a mixture is sum_y alpha_i(y) L_i(y); the mean of these losses
with the p_i is the linear term of the dual.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from sksstruct.models.protocols._bound_model cimport BoundModel
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.utils._arena cimport Arena
from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_intps, doubles, int32s, intps,
)

from sksstruct.solvers.frank_wolfe.exported import FIRST_CAPACITY
from sksstruct.utils._layout import aligned_zeros

# Initial capacities, in labelings, of the scratch and of a block. Without a cache few
# blocks need more than four labelings; the scratch exists once, and may be larger.
cdef Py_ssize_t SCRATCH_CAPACITY = 16, FIRST = FIRST_CAPACITY


cdef class Blocks:
    """Store, initialize, and export the dual variables of all examples.

    Initially each mixture is the observed labeling, so that w = 0.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    weights : Weights
        The weights w of the dual variables, initially zero; updated with every change.
    alpha : float
        Regularization.
    use_means : bool
        Whether blocks are mean parameters.
    cache, max_cached
        As in `sksstruct.solvers.BCFW`.
    """

    def __init__(self, BoundModel model, Weights weights, double alpha, *, use_means,
                 cache, max_cached):
        cdef Py_ssize_t i
        self._objects = []
        self.model, self.weights, self.alpha = model, weights, alpha
        self.workspace = model.workspace(weights.w)
        self.cache, self.use_means, self.max_cached = cache, use_means, max_cached
        self.n_blocks = model.n_examples
        self.arena = Arena(model.on_disk)
        self.blocks = <Block*> calloc(self.n_blocks, sizeof(Block))
        if self.blocks == NULL:
            raise MemoryError()
        self.losses_ = aligned_zeros(self.n_blocks)
        self.promises_ = aligned_zeros(self.n_blocks)
        self.losses, self.promises = doubles(self.losses_), doubles(self.promises_)
        # `_set_scratch` and `_set_difference` enlarge these arrays for the largest
        # block
        _set_scratch(self, SCRATCH_CAPACITY)
        self.decoded = self._integers(model.max_size)
        self.keys = self._integers(model.max_keys)
        # `place` has an entry for every possible key, and is allocated only for mean
        # parameters
        if self.use_means:
            self.place = self._integers(model.key_space)
            _set_difference(self, model.max_keys)
        for i in range(self.n_blocks):
            model.y_true(i, self.decoded)
            _put_weight_on(self, i, self.decoded)

    cdef int32_t* _integers(self, Py_ssize_t size) except? NULL:
        """Return an array of zeros that lives as long as this object."""
        array = aligned_zeros(size, "i4")
        self._objects.append(array)
        return int32s(array)

    def __dealloc__(self):
        # the arena frees the arrays of the blocks
        free(self.blocks)

    # ---- the dual variables, in and out: see `exported.py` ----

    def read_counts(self, counts_):
        """Write the number of keys, or of labelings, of each block to `counts_`."""
        cdef Py_ssize_t* counts = intps(counts_)
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            counts[i] = _n_entries(self, i)

    def read_mixtures(self, keys_, values_):
        """Write keys and values, or labelings and weights, block after block."""
        cdef int32_t* keys = int32s(keys_)
        cdef double* values = doubles(values_)
        cdef Py_ssize_t i, count, length
        cdef Block* block
        for i in range(self.n_blocks):
            block, count = &self.blocks[i], _n_entries(self, i)
            length = count if self.use_means else count * self.model._sizes[i]
            memcpy(keys, block.keys if self.use_means else block.labelings,
                   length * sizeof(int32_t))
            memcpy(values, block.values if self.use_means else block.weight,
                   count * sizeof(double))
            keys, values = keys + length, values + count

    def fill(self, counts_, keys_, values_):
        """Fill all blocks with data that `read_counts` and `read_mixtures` wrote."""
        cdef const Py_ssize_t* counts = const_intps(counts_)
        cdef const int32_t* keys = const_int32s(keys_)
        cdef const double* values = const_doubles(values_)
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            if self.use_means:
                _fill_means(self, i, counts[i], keys, values)
                keys += counts[i]
            else:
                _fill_labelings(self, i, counts[i], keys, values)
                keys += counts[i] * self.model._sizes[i]
            values += counts[i]

    def form_weights(self):
        """Add the weights of the dual variables to w, and set the blocks' losses.

        The workspace must read zero weights: values of mixtures are then their losses.
        """
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            _add_observed(self, i)
            self.losses[i] = _subtract_block(self, i)
            _apply_difference(self, i)

    def read_gram_sizes(self, capacities_, sizes_):
        """Write the capacity of each block, and the size of its Gram matrix."""
        cdef Py_ssize_t* capacities = intps(capacities_)
        cdef Py_ssize_t* sizes = intps(sizes_)
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            capacities[i], sizes[i] = self.blocks[i].capacity, self.blocks[i].n_gram

    def read_grams(self, grams_):
        """Write the Gram matrices of all blocks, one after the other."""
        cdef double* grams = doubles(grams_)
        cdef Py_ssize_t i, j
        cdef Block* block
        for i in range(self.n_blocks):
            block = &self.blocks[i]
            for j in range(block.n_gram):
                memcpy(grams, block.gram + j * block.capacity,
                       block.n_gram * sizeof(double))
                grams += block.n_gram

    def fill_grams(self, capacities_, sizes_, grams_):
        """Restore the capacities of blocks, and fill their Gram matrices."""
        cdef const Py_ssize_t* capacities = const_intps(capacities_)
        cdef const Py_ssize_t* sizes = const_intps(sizes_)
        cdef const double* grams = const_doubles(grams_)
        cdef Py_ssize_t i, j, width
        cdef Block* block
        for i in range(self.n_blocks):
            block, width = &self.blocks[i], capacities[i]
            # the capacities decide when later visits recompute Gram matrices
            if width > block.capacity:
                _set_capacity(self, block, self.model._sizes[i], width)
            # each row of the Gram matrix has the length of the capacity
            width = block.capacity
            if sizes[i] == 0:
                continue
            block.gram = <double*> self.arena.take(width * width * sizeof(double))
            block.n_gram = sizes[i]
            for j in range(sizes[i]):
                memcpy(block.gram + j * width, grams, sizes[i] * sizeof(double))
                grams += sizes[i]

    # ---- changing the weights within a run ----

    def use(self, Weights weights, double alpha):
        """Continue with other weights w, which may differ from w of the duals."""
        self.weights, self.alpha = weights, alpha
        self.workspace.read(weights.w)

    # ---- starting points ----

    def start_at(self, labelings_):
        """Make each mixture a given labeling, and set w; w must be zero before."""
        cdef const int32_t* labelings = const_int32s(labelings_)
        cdef const int32_t* y
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            y = labelings + self.model._starts[i]
            self.model.loss(i, y, &self.losses[i])
            _add_observed(self, i)
            self.model.add_labeling(self.workspace, i, y, -1.0)
            _apply_difference(self, i)
            _put_weight_on(self, i, y)
        self.loss = float(self.model.example_weights @ self.losses_)
        # the caller has made one oracle call for each labeling
        self.oracle_calls += self.n_blocks

    def rescale(self, double share, double alpha):
        """Continue at another alpha, with share * mu_i + (1 - share) * mu_i(y_i).

        All weights are multiplied by share * alpha_old / alpha, and the losses by
        share. In Proposition 1, share = alpha / alpha_old and the weights stay the
        same. Gaps are not updated.
        """
        cdef Py_ssize_t i
        for i in range(self.n_blocks):
            # promises of the old weights are void: `visit_known` visits all blocks once
            self.promises[i] = INFINITY
            # the observed labelings have loss zero
            self.losses[i] *= share
            # with share 1, observed labelings would be appended with weight zero
            if share != 1.0:
                _mix_with_observed(self, i, share)
        self.loss *= share
        # v is linear in the duals, and mu_i(y_i) contributes nothing to v
        self.weights.set(self.weights.v * (share * self.alpha / alpha))
        self.workspace.read(self.weights.w)
        self.alpha = alpha

    # ---- adding labelings ----

    def add_known(self, labelings_):
        """Append a labeling to each block that does not have this labeling yet.

        The labelings follow each other in the order of the blocks.
        """
        cdef const int32_t* labelings = const_int32s(labelings_)
        cdef const int32_t* y
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.n_blocks):
                y = labelings + self.model._starts[i]
                if self._find(&self.blocks[i], self.model._sizes[i],
                              y) == self.blocks[i].n_labelings:
                    self._append(i, y)
                    # the labeling's gain is unknown until the next visit
                    self.promises[i] = INFINITY
        self.oracle_calls += self.n_blocks

    cdef Py_ssize_t _find(self, Block* block, Py_ssize_t size,
                          const int32_t* y) noexcept nogil:
        """Return a labeling's number in the block, or n_labelings if it is new."""
        # linear search without hashes: blocks are small, and most labelings differ
        # early
        cdef Py_ssize_t j, position
        for j in range(block.n_labelings):
            for position in range(size):
                if block.labelings[j * size + position] != y[position]:
                    break
            else:
                return j
        return block.n_labelings

    cdef int _append(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        """Append a labeling of weight zero to a block."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j = block.n_labelings
        if j == block.capacity:
            _widen(self, block, size)
        memcpy(block.labelings + j * size, y, size * sizeof(int32_t))
        block.weight[j] = 0.0
        # losses are stored, as every step needs the losses of all labelings
        self.model.loss(i, y, &block.loss[j])
        block.n_labelings += 1
        return 0

    cdef int _extend_gram(self, Py_ssize_t i) except -1 nogil:
        """Compute rows of the Gram matrix for labelings added since the last call."""
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], j, k, width = block.capacity
        if block.gram == NULL:
            block.gram = <double*> self.arena.take(width * width * sizeof(double))
            block.n_gram = 0
        for j in range(block.n_gram, block.n_labelings):
            # products with the labelings up to j, the lower triangle
            self.model.gram_row(self.workspace, i, block.labelings + j * size, j + 1,
                                block.labelings, block.gram + j * width)
            # the upper triangle is stored, too, as steps read whole rows
            for k in range(j):
                block.gram[k * width + j] = block.gram[j * width + k]
        block.n_gram = block.n_labelings
        return 0

    # ---- removing labelings ----

    cdef int _drop(self, Py_ssize_t i) except -1 nogil:
        """Remove labelings of weight zero: all without a cache, else beyond max_cached.

        Labelings of weight zero do not contribute to the iterate.
        """
        cdef Block* block = &self.blocks[i]
        cdef Py_ssize_t size = self.model._sizes[i], lowest
        if not self.cache:
            _drop_all_inactive(self, block, size)
            return 0
        # a labeling with a low value in this visit is unlikely to be best soon
        while block.n_labelings > self.max_cached:
            lowest = _lowest_inactive(self, block)
            # active labelings are never removed
            if lowest < 0:
                return 0
            _remove(self, block, size, lowest)
        return 0

    # ---- mean parameters ----

    cdef int _restart_means(self, Block* block, Py_ssize_t count) except -1 nogil:
        """Make the mixture the labeling whose keys are in self.keys."""
        block.n_keys = 0
        return _add_keys(self, block, count, 1.0)

    cdef int _subtract_keys(self, Block* block, Py_ssize_t count) except -1 nogil:
        """Write mean parameters of a block minus those of a labeling to `difference`.

        The first `count` of self.keys are the keys of the labeling. New keys are
        inserted into the block, with value zero.
        """
        cdef Py_ssize_t n_keys = block.n_keys, k
        _reserve_keys(self, block, n_keys + count)
        if self.difference_capacity < block.key_capacity:
            with gil:
                _set_difference(self, 2 * block.key_capacity)
        _find_keys(self, block)
        for k in range(count):
            _entry(self, block, self.keys[k])
        # sorting moves keys, so that `place` has to be set again
        if block.n_keys > n_keys:
            sort_keys(block, n_keys)
            _find_keys(self, block)
        memcpy(self.difference, block.values, block.n_keys * sizeof(double))
        # a key that the labeling has twice is subtracted twice
        for k in range(count):
            self.difference[self.place[self.keys[k]]] -= 1.0
        return 0


# ---- helper functions of the methods ----

cdef Py_ssize_t _n_entries(Blocks self, Py_ssize_t i) noexcept nogil:
    """Return the number of keys, or of labelings, of a block."""
    return self.blocks[i].n_keys if self.use_means else self.blocks[i].n_labelings


cdef double _subtract_block(Blocks self, Py_ssize_t i) except? -1.0:
    """Subtract mu_i of a block from the prepared change; return the mixture's loss."""
    cdef Block* block = &self.blocks[i]
    cdef double value = 0.0
    cdef Py_ssize_t j
    if self.use_means:
        # at w = 0, `add_mean` returns the loss as the value
        self.model.add_mean(self.workspace, i, block.n_keys, block.keys,
                            block.values, -1.0, &value)
        return value
    for j in range(block.n_labelings):
        value += block.weight[j] * block.loss[j]
        self.model.add_labeling(
            self.workspace, i, block.labelings + j * self.model._sizes[i],
            -block.weight[j])
    return value


cdef int _fill_means(Blocks self, Py_ssize_t i, Py_ssize_t count, const int32_t* keys,
                     const double* values) except -1:
    """Fill a block with the keys and values of mean parameters."""
    cdef Block* block = &self.blocks[i]
    cdef Py_ssize_t k
    _reserve_keys(self, block, count)
    memcpy(block.keys, keys, count * sizeof(int32_t))
    memcpy(block.values, values, count * sizeof(double))
    block.n_keys = count
    # an imported state may have its keys in any order
    sort_keys(block, 0)
    for k in range(1, count):
        if block.keys[k] == block.keys[k - 1]:
            raise ValueError(
                f"the state of dual variables is damaged: example {i} has the key "
                f"{block.keys[k]} twice")
    return 0


cdef int _fill_labelings(Blocks self, Py_ssize_t i, Py_ssize_t count,
                         const int32_t* keys, const double* values) except -1:
    """Fill a block with labelings and their weights."""
    cdef Block* block = &self.blocks[i]
    cdef Py_ssize_t j
    block.n_labelings = block.n_gram = 0
    for j in range(count):
        # losses are recomputed, as label costs may have changed since the export
        self._append(i, keys)
        block.weight[j] = values[j]
        keys += self.model._sizes[i]
    return 0


cdef int _add_observed(Blocks self, Py_ssize_t i) except -1:
    """Load an example, and add mu_i(y_i) to the prepared change."""
    self.model.potentials(self.workspace, i)
    self.model.y_true(i, self.decoded)
    return self.model.add_labeling(self.workspace, i, self.decoded, 1.0)


cdef int _apply_difference(Blocks self, Py_ssize_t i) except -1:
    """Add the prepared change mu_i(y_i) - mu_i of a block to w."""
    # the factor of the change in u is 0, as starting points are not averaged
    return self.model.apply_change(
        self.workspace, i, self.weights,
        self.model._example_weights[i] / self.alpha, 0.0)


cdef int _put_weight_on(Blocks self, Py_ssize_t i, const int32_t* y) except -1:
    """Make a block consist of one labeling."""
    cdef Block* block = &self.blocks[i]
    cdef Py_ssize_t count
    if self.use_means:
        count = self.model.indicator(i, y, self.keys)
        return self._restart_means(block, count)
    # capacity and memory are kept
    block.n_labelings = block.n_gram = 0
    self._append(i, y)
    block.weight[0] = 1.0
    return 0


cdef int _mix_with_observed(Blocks self, Py_ssize_t i, double share) except -1:
    """Scale a block by a share, and give the remaining weight to y_i."""
    cdef Block* block = &self.blocks[i]
    cdef Py_ssize_t j, count
    self.model.y_true(i, self.decoded)
    if self.use_means:
        count = self.model.indicator(i, self.decoded, self.keys)
        for j in range(block.n_keys):
            block.values[j] *= share
        return _add_keys(self, block, count, 1.0 - share)
    # cached labelings of weight zero are kept for later visits
    for j in range(block.n_labelings):
        block.weight[j] *= share
    j = self._find(block, self.model._sizes[i], self.decoded)
    if j == block.n_labelings:
        self._append(i, self.decoded)
    block.weight[j] += 1.0 - share
    return 0


cdef int _widen(Blocks self, Block* block, Py_ssize_t size) except -1 nogil:
    """Double the capacity of a block for labelings."""
    # as capacities double, the old arrays, which the arena keeps, take no more memory
    # than the arrays in use
    return _set_capacity(
        self, block, size, 2 * block.n_labelings if block.n_labelings else FIRST)


cdef int _set_capacity(Blocks self, Block* block, Py_ssize_t size,
                       Py_ssize_t capacity) except -1 nogil:
    """Enlarge the capacity of a block for labelings."""
    cdef Py_ssize_t count = block.n_labelings
    block.labelings = <int32_t*> self.arena.grow(
        block.labelings, count * size * sizeof(int32_t),
        capacity * size * sizeof(int32_t))
    block.weight = <double*> self.arena.grow(
        block.weight, count * sizeof(double), capacity * sizeof(double))
    block.loss = <double*> self.arena.grow(
        block.loss, count * sizeof(double), capacity * sizeof(double))
    # the length of Gram rows changes, so that the matrix is recomputed when needed
    block.n_gram = 0
    block.gram = NULL
    block.capacity = capacity
    if capacity > self.scratch_capacity:
        with gil:
            _set_scratch(self, capacity)
    return 0


cdef int _set_scratch(Blocks self, Py_ssize_t capacity) except -1:
    """Enlarge the workspace arrays of a visit; the contents of `value` are kept."""
    scratch = aligned_zeros(3 * capacity)
    cdef double* value = doubles(scratch)
    # a visit that appends a labeling has evaluated the block's other labelings before
    if self.scratch_capacity:
        memcpy(value, self.value, self.scratch_capacity * sizeof(double))
    self._scratch, self.scratch_capacity = scratch, capacity
    self.value, self.old_weight = value, value + capacity
    self.mixture = value + 2 * capacity
    return 0


cdef int _set_difference(Blocks self, Py_ssize_t capacity) except -1:
    """Allocate memory for the difference of a mixture and a labeling."""
    self._difference, self.difference_capacity = aligned_zeros(capacity), capacity
    self.difference = doubles(self._difference)
    return 0


cdef void _drop_all_inactive(Blocks self, Block* block, Py_ssize_t size) noexcept nogil:
    """Remove all labelings of weight zero from a block."""
    cdef Py_ssize_t j = 0
    while j < block.n_labelings:
        # `_remove` fills place j with the last labeling, which is checked next
        if block.weight[j] <= 0.0:
            _remove(self, block, size, j)
        else:
            j += 1


cdef Py_ssize_t _lowest_inactive(Blocks self, Block* block) noexcept nogil:
    """Return a block's labeling of weight zero with the lowest value, or -1."""
    cdef Py_ssize_t j, lowest = -1
    for j in range(block.n_labelings):
        if block.weight[j] <= 0.0 and (
                lowest < 0 or self.value[j] < self.value[lowest]):
            lowest = j
    return lowest


cdef void _remove(Blocks self, Block* block, Py_ssize_t size,
                  Py_ssize_t removed) noexcept nogil:
    """Remove a labeling from a block: the last labeling replaces it."""
    # one labeling is copied, as the order of labelings has no meaning
    cdef Py_ssize_t last = block.n_labelings - 1
    if removed != last:
        memcpy(block.labelings + removed * size, block.labelings + last * size,
               size * sizeof(int32_t))
        block.weight[removed] = block.weight[last]
        block.loss[removed] = block.loss[last]
        self.value[removed] = self.value[last]
        # the Gram matrix has a row for every labeling, or this visit does not use it
        if block.n_gram == block.n_labelings:
            _replace_in_gram(self, block, removed, last)
    block.n_labelings = last
    # remove the last row and column of the Gram matrix
    if block.n_gram > last:
        block.n_gram = last


cdef void _replace_in_gram(Blocks self, Block* block, Py_ssize_t removed,
                           Py_ssize_t last) noexcept nogil:
    """Overwrite a row and a column of the Gram matrix with the last row and column."""
    cdef Py_ssize_t k, width = block.capacity
    for k in range(block.n_labelings):
        block.gram[removed * width + k] = block.gram[last * width + k]
    # the row is copied first, so that the new diagonal entry is right
    for k in range(block.n_labelings):
        block.gram[k * width + removed] = block.gram[k * width + last]


cdef int _reserve_keys(Blocks self, Block* block, Py_ssize_t needed) except -1 nogil:
    """Grow a block to a capacity of at least `needed` keys."""
    cdef Py_ssize_t capacity = block.key_capacity
    if needed <= capacity:
        return 0
    # the capacity is at least doubled, for the same reason as in `_widen`
    capacity = needed if needed > 2 * capacity else 2 * capacity
    block.keys = <int32_t*> self.arena.grow(
        block.keys, block.n_keys * sizeof(int32_t), capacity * sizeof(int32_t))
    block.values = <double*> self.arena.grow(
        block.values, block.n_keys * sizeof(double), capacity * sizeof(double))
    block.key_capacity = capacity
    return 0


cdef int _add_keys(Blocks self, Block* block, Py_ssize_t count,
                   double step) except -1 nogil:
    """Add step to the mean parameters of the first `count` of self.keys."""
    cdef Py_ssize_t n_keys = block.n_keys, k
    # memory for all keys is reserved first, so that the loop below cannot fail
    _reserve_keys(self, block, n_keys + count)
    _find_keys(self, block)
    for k in range(count):
        block.values[_entry(self, block, self.keys[k])] += step
    sort_keys(block, n_keys)
    return 0


cdef void _find_keys(Blocks self, Block* block) noexcept nogil:
    """Set `place` to the entry of each key of a block."""
    cdef Py_ssize_t entry
    # With `place`, a key is found in one access. Entries of other blocks remain in
    # `place`: an entry is valid only if this entry of the block has the key.
    for entry in range(block.n_keys):
        self.place[block.keys[entry]] = <int32_t> entry


cdef Py_ssize_t _entry(Blocks self, Block* block, int32_t key) noexcept nogil:
    """Return the entry of a key; a new key is appended, with value zero."""
    cdef Py_ssize_t entry = self.place[key]
    if entry < block.n_keys and block.keys[entry] == key:
        return entry
    entry = block.n_keys
    block.n_keys += 1
    block.keys[entry], block.values[entry] = key, 0.0
    self.place[key] = <int32_t> entry
    return entry
