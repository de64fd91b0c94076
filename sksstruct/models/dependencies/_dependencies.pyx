"""Dependency trees as a structure: see `inference/dependencies/_arcs.pxd` for scores.

The table of n words is one block of one column of weights, with a row of features for
each of (n + 1) n arcs, head by head; oracles read it as it is. A labeling has the head
of each word, and its keys are its arcs. The arc from a word to itself is no key, and
its row of features is never read.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.dependencies._nonprojective cimport (
    nonprojective_max,
    nonprojective_scratch,
    nonprojective_topk,
    nonprojective_topk_scratch,
)
from sksstruct.inference.dependencies._projective cimport (
    projective_max,
    projective_sums,
    projective_topk,
    projective_topk_scratch,
)
from sksstruct.inference.dependencies._spanning_sums cimport (
    nonprojective_sums,
    spanning_scratch,
)
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure
from sksstruct.utils._memory cimport reserve


cdef enum Flaw:
    # reasons why heads are no allowed tree
    NO_FLAW, NO_HEAD, CYCLE, SECOND_ROOT, CROSSING


cdef Flaw flaw_of(Py_ssize_t n, const int32_t* heads, bint projective,
                  bint single_root, Py_ssize_t* word) noexcept nogil:
    """Return the reason why heads are no allowed tree, and a word at fault."""
    cdef Py_ssize_t modifier, ancestor, low, high, _, n_roots = 0
    for modifier in range(1, n + 1):
        word[0] = modifier
        if not 0 <= heads[modifier - 1] <= n:
            return NO_HEAD
    for modifier in range(1, n + 1):
        word[0] = ancestor = modifier
        for _ in range(n):
            ancestor = heads[ancestor - 1]
            if ancestor == 0:
                break
        else:
            return CYCLE
    for modifier in range(1, n + 1):
        word[0] = modifier
        n_roots += heads[modifier - 1] == 0
        if single_root and n_roots > 1:
            return SECOND_ROOT
    if not projective:
        return NO_FLAW
    for modifier in range(1, n + 1):
        ancestor = heads[modifier - 1]
        low, high = min(ancestor, modifier), max(ancestor, modifier)
        for word[0] in range(low + 1, high):
            # A word between the two ends of an arc must have its head within these
            # ends. If two arcs of a tree cross, a word below one of them violates this.
            if not low <= heads[word[0] - 1] <= high:
                return CROSSING
    return NO_FLAW


def find_flaw(const int32_t[::1] heads, bint projective, bint single_root):
    """Describe why heads are no allowed tree; None if they are an allowed tree."""
    cdef Py_ssize_t word = 0
    cdef Flaw flaw = flaw_of(heads.shape[0], &heads[0], projective, single_root, &word)
    if flaw == NO_HEAD:
        return (f"has head {heads[word - 1]} for word {word}: heads are 0 for the "
                f"root, and 1 to {heads.shape[0]} for the words")
    if flaw == CYCLE:
        return f"has a cycle: following heads from word {word} never reaches the root"
    if flaw == SECOND_ROOT:
        return (f"has a second root, word {word}: pass single_root=False if several "
                "words may hang from the root")
    if flaw == CROSSING:
        return (f"is not projective: the arc from {heads[word - 1]} to word {word} "
                "crosses another one. Pass projective=False to learn such trees")
    return None


cdef class DependencyTrees(Structure):
    """Dependency trees of sentences.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`: a head and a key for each word.
    projective, single_root : bool
        Whether arcs must not cross, and whether only one word hangs from the root.
    costs : ndarray of shape (n_examples,) or None
        Cost of a wrong head; None for prediction.
    """

    oracles = ("max", "topk", "exp")
    cdef readonly bint projective, single_root
    cdef const double[::1] _costs

    def __init__(self, sizes, y_true, max_keys, projective, single_root, costs):
        self.projective, self.single_root = projective, single_root
        self._costs = costs
        self.memory_size = max(
            projective_topk_scratch(self.max_size),
            nonprojective_scratch(self.max_size),
            spanning_scratch(self.max_size))
        self.meaning += [projective, single_root]

    # ---- labelings ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        cdef Py_ssize_t word
        return flaw_of(self._sizes[i], y, self.projective, self.single_root,
                       &word) == NO_FLAW

    cdef int has_key(self, Py_ssize_t i, Py_ssize_t key) except -1 nogil:
        # no arc leads from a word to itself
        return key // self._sizes[i] != key % self._sizes[i] + 1

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t n = self._sizes[i], k
        for k in range(n):
            keys[k] = <int32_t> (y[k] * n + k)
        return n

    # ---- the loss ----

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t n = self._sizes[i], k
        cdef const int32_t* observed = &self._y_true[self._starts[i]]
        # the constant adds the cost of n wrong heads, and theta subtracts the cost of
        # one head for each observed arc
        for k in range(n):
            at.theta[observed[k] * n + k] -= scale * self._costs[i]
        at.constant += scale * self._costs[i] * n
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t k, wrong = 0
        cdef const int32_t* observed = &self._y_true[self._starts[i]]
        for k in range(self._sizes[i]):
            wrong += y[k] != observed[k]
        value[0] = wrong * self._costs[i]
        return 0

    # ---- oracles ----

    cdef int decode(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        cdef Py_ssize_t n = self._sizes[i]
        cdef double score
        if n == 0:
            return 0
        if self.projective:
            score = projective_max(n, self.single_root, at.theta, at.memory, y)
        else:
            score = nonprojective_max(n, self.single_root, at.theta, at.memory, y)
        if score == -INFINITY:
            with gil:
                raise ValueError(f"example {i} has no tree with a score above -inf")
        return 0

    cdef Py_ssize_t topk(self, Potentials* at, OracleMemory oracle, Py_ssize_t i,
                         Py_ssize_t k) except -1 nogil:
        cdef Py_ssize_t n = self._sizes[i], needed, k_most = 1, _
        # there are at most as many labelings as choices of heads
        for _ in range(n):
            if k_most >= k:
                break
            k_most *= n
        k = min(k, k_most)
        oracle.make_room(k, n)
        if n == 0:
            oracle.values[0] = 0.0
            return 1
        if self.projective:
            return projective_topk(
                n, self.single_root, at.theta, k, at.memory, &oracle.scratch,
                &oracle.scratch_capacity, oracle.values, oracle.labelings)
        needed = nonprojective_topk_scratch(n, k)
        reserve(<void**> &oracle.scratch, &oracle.scratch_capacity, needed,
                sizeof(double))
        return nonprojective_topk(n, self.single_root, at.theta, k, oracle.scratch,
                                  oracle.values, oracle.labelings)

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef Py_ssize_t n = self._sizes[i]
        cdef double total = 0.0
        if n == 0:
            pass
        elif self.projective:
            total = projective_sums(
                n, self.single_root, at.theta, 1.0 / mu, at.memory, means)
        else:
            total = nonprojective_sums(
                n, self.single_root, at.theta, 1.0 / mu, at.memory, means)
        value[0] = at.constant + mu * total
        return 0
