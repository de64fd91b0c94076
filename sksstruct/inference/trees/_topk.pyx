"""The k best labelings of trees and forests, by recursive enumeration.

A state of a variable has a list of the best labelings of the subtree below it, in
descending order (Algorithm 8 of Pillutla et al., 2018). The list is made child by
child, beginning with the last child. For a child c and a state b of its parent

* the lists of the states of c are merged, through the scores of their pairs with b,
  into one list, the message;
* the list of b so far, which includes the children after c, and the message are added:
  sum (i, j) is entry i of the list plus entry j of the message. Sums descend along each
  row i, and so do the first sums of the rows. A heap with the next sum of each row
  yields sums in order; row i + 1 enters when the first sum of row i is taken.

Max-product yields the first entries of all lists. One more sum needs at most one more
entry of the message and one more entry of the list so far; an entry of the message
needs one more entry of one state's list. One more labeling therefore needs one more sum
at some variables, each for one state of the parent. These variables are found from the
root on, and their sums in reverse order (as on chains, Jimenez and Marzal, 1999). Most
lists never need a second entry, and lists that were not begun take no memory. A place
is the position of a variable in the order of `Tree`.

Ties: of equal entries of a message, the lowest state of the child comes first; of equal
sums, the lowest i.

K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
structured prediction models", NeurIPS 2018.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._forest cimport Forest
from sksstruct.inference.trees._messages cimport best_state
from sksstruct.utils._heap cimport Heap, HeapOrder, pop, push, restore
from sksstruct.utils._memory cimport reserve, resize
from sksstruct.utils._pointers cimport const_intps, doubles, int32s
from sksstruct.utils._simd cimport sks_first, sks_max, sks_maxplus

from sksstruct.inference.trees._arrays import list_arrays, topk_results

# Size of a sum in the pool, in doubles: three doubles and six integers; and initial
# capacity of a list, in sums.
cdef enum:
    WORDS = 6
    FIRST_CAPACITY = 4


# ---- scores of pairs ----

cdef void pairs_of_table(const Link* link, Py_ssize_t state_of_parent,
                         Py_ssize_t first, Py_ssize_t stop,
                         double* out) noexcept nogil:
    """Add the scores of states in a table, given the state of the parent."""
    cdef const double* table = link.table + link.parent_step * state_of_parent
    cdef Py_ssize_t state
    for state in range(first, stop):
        out[state - first] += table[link.step * state]


cdef void no_pairs(const Link* link, Py_ssize_t state_of_parent, Py_ssize_t first,
                   Py_ssize_t stop, double* out) noexcept nogil:
    """Add no scores: the root of roots has no edges."""


cdef Py_ssize_t first_best(Py_ssize_t n, const double* row) noexcept nogil:
    """Return the lowest state of largest score among n states."""
    # vector instructions are faster in long rows only
    return best_state(n, row) if n < 32 else sks_first(n, row, sks_max(n, row))


@cython.final
cdef class SubtreeLists:
    """Lists of the best labelings of all subtrees of a forest.

    The caller calls `begin`, fills in the links, and then calls `find`.
    """

    def __dealloc__(self):
        free(self.links)
        free(self._places)
        free(self._slot_of)
        free(self._slots)
        free(self._pool)

    # ---- memory ----

    cdef int begin(self, Py_ssize_t n_variables) except -1 nogil:
        """Reserve the links of a forest of at least one variable."""
        cdef Py_ssize_t n = n_variables + 1
        self.n_variables = n_variables
        if n > self._link_capacity:
            resize(<void**> &self.links, n * sizeof(Link))
            resize(<void**> &self._places, 4 * n * sizeof(int32_t))
            self._link_capacity = n
        self._state, self._label = self._places + n, self._places + 2 * n
        self._rank = self._places + 3 * n
        return 0

    cdef int _number_keys(self) except -1 nogil:
        """Find first children, and number the pairs of variable and parent's state."""
        cdef Py_ssize_t place, n_keys = 0
        cdef Link* parent
        self.links[0].n_states, self.links[0].child = 1, 0
        for place in range(1, self.n_variables + 1):
            self.links[place].child = 0
            self.links[place].first_key = n_keys
            parent = self.links + self.links[place].parent
            n_keys += parent.n_states
            if parent.child == 0:
                parent.child = <int32_t> place
        reserve(<void**> &self._slot_of, &self._key_capacity, n_keys, sizeof(int32_t))
        # 255 in each byte makes every int32 -1
        memset(self._slot_of, 255, n_keys * sizeof(int32_t))
        self._n_slots = self._n_pool = 0
        return 0

    cdef Py_ssize_t _reserve_pool(self, Py_ssize_t count) except -1 nogil:
        """Reserve doubles in the pool; return the index of the first."""
        # All lists share one pool, which is emptied at once. The pool's address changes
        # as it grows, so that slots hold indices.
        cdef Py_ssize_t first = self._n_pool
        reserve(<void**> &self._pool, &self._pool_capacity, first + count,
                sizeof(double))
        self._n_pool += count
        return first

    cdef Arrays _arrays(self, Py_ssize_t place, const Slot* slot) noexcept nogil:
        """Return pointers to the arrays of a slot in the pool."""
        cdef Arrays lists
        cdef Py_ssize_t n = slot.capacity
        lists.total = self._pool + slot.first
        lists.row_total, lists.message = lists.total + n, lists.total + 2 * n
        lists.row = <int32_t*> (lists.total + 3 * n)
        lists.column, lists.row_column = lists.row + n, lists.row + 2 * n
        lists.rows, lists.state = lists.row + 3 * n, lists.row + 4 * n
        lists.rank = lists.row + 5 * n
        lists.head = self._pool + slot.first_head
        lists.head_rank = <int32_t*> (lists.head + self.links[place].n_states)
        return lists

    cdef int _grow(self, Py_ssize_t place, Slot* slot) except -1 nogil:
        """Move the lists of a slot to twice as much memory in the pool."""
        # the old memory of a slot is not used again: in total, it is less than the new
        # memory
        cdef Py_ssize_t n = slot.capacity, first = self._reserve_pool(2 * WORDS * n), k
        cdef Arrays old = self._arrays(place, slot), new
        slot.first, slot.capacity = first, <int32_t> (2 * n)
        new = self._arrays(place, slot)
        for k in range(3):
            memcpy(new.total + 2 * k * n, old.total + k * n, n * sizeof(double))
        for k in range(6):
            memcpy(new.row + 2 * k * n, old.row + k * n, n * sizeof(int32_t))
        return 0

    cdef Slot* _slot(self, Py_ssize_t place, Py_ssize_t state) noexcept nogil:
        """The existing slot of a variable, by its place, and its parent's state."""
        return self._slots + self._slot_of[self.links[place].first_key + state]

    cdef bint _has_sibling(self, Py_ssize_t place) noexcept nogil:
        """Whether the variable at the next place has the same parent."""
        return (place < self.n_variables
                and self.links[place + 1].parent == self.links[place].parent)

    cdef int _begin_lists(self, Py_ssize_t place, Py_ssize_t state) except -1 nogil:
        """Begin the lists of a variable and its parent's state with the best sum."""
        cdef Link* link = self.links + place
        cdef Py_ssize_t n = link.n_states, best
        cdef Slot slot
        cdef Arrays lists
        reserve(<void**> &self._slots, &self._slot_capacity, self._n_slots + 1,
                sizeof(Slot))
        slot.first = self._reserve_pool(WORDS * FIRST_CAPACITY)
        slot.first_head = self._reserve_pool(n + (n + 1) // 2)
        slot.capacity = FIRST_CAPACITY
        slot.n_sums = slot.n_messages = slot.n_rows = 1
        slot.no_more_sums = slot.no_more_messages = False
        lists = self._arrays(place, &slot)
        memcpy(lists.head, link.best, n * sizeof(double))
        memset(lists.head_rank, 0, n * sizeof(int32_t))
        link.add_pairs(link, state, 0, n, lists.head)
        best = first_best(n, lists.head)
        lists.message[0], lists.state[0] = lists.head[best], <int32_t> best
        lists.total[0] = lists.row_total[0] = link.without[state] + lists.head[best]
        lists.row[0] = lists.column[0] = lists.row_column[0] = 0
        lists.rows[0] = lists.rank[0] = 0
        self._slots[self._n_slots] = slot
        # The key gets its slot last: a failed allocation above must not leave a key
        # whose slot has no sum.
        self._slot_of[link.first_key + state] = <int32_t> self._n_slots
        self._n_slots += 1
        return 0

    # ---- one more labeling ----

    cdef bint _next(self) except -1 nogil:
        """Find the next best labeling: one more sum at place 1; return if it exists."""
        cdef Py_ssize_t n_places = 1, done = 0
        self._places[0], self._state[1] = 1, 0
        # a sum of a place is needed by one other place at most: the parent or the
        # sibling before
        while done < n_places:
            n_places = self._request_operands(self._places[done], n_places)
            done += 1
        while n_places:
            n_places -= 1
            self._extend(self._places[n_places])
        return not self._slot(1, 0).no_more_sums

    cdef Py_ssize_t _request_operands(self, Py_ssize_t place,
                                      Py_ssize_t n_places) except -1 nogil:
        """Request the sums that a variable's next sum needs; return new n_places."""
        cdef Py_ssize_t state = self._state[place], child = self.links[place].child
        cdef Slot* slot = self._slot(place, state)
        cdef Arrays lists = self._arrays(place, slot)
        # only the successors of the sum that was taken last may be unknown
        cdef Py_ssize_t row = lists.row[slot.n_sums - 1]
        cdef Py_ssize_t column = lists.column[slot.n_sums - 1]
        if child and column + 1 == slot.n_messages and not slot.no_more_messages:
            n_places = self._request(
                child, lists.state[column], lists.rank[column] + 1, n_places)
        if column == 0 and self._has_sibling(place):
            n_places = self._request(place + 1, state, row + 1, n_places)
        return n_places

    cdef Py_ssize_t _request(self, Py_ssize_t place, Py_ssize_t state, Py_ssize_t rank,
                             Py_ssize_t n_places) except -1 nogil:
        """Request the sum of a rank, unless it is known or is known not to exist."""
        cdef Slot* slot
        if self._slot_of[self.links[place].first_key + state] < 0:
            self._begin_lists(place, state)
        slot = self._slot(place, state)
        if slot.n_sums > rank or slot.no_more_sums:
            return n_places
        self._places[n_places], self._state[place] = <int32_t> place, <int32_t> state
        return n_places + 1

    cdef int _extend(self, Py_ssize_t place) except -1 nogil:
        """Find the next sum of the variable at a place: list entry plus message entry.

        All sums that the next sum needs are known.
        """
        cdef Py_ssize_t state = self._state[place], row, column
        cdef Slot* slot = self._slot(place, state)
        cdef Slot* before
        cdef Arrays lists
        cdef Heap heap
        cdef HeapOrder order
        # the numbers of rows and of entries of the message exceed that of sums by one
        # at most
        if slot.n_sums == slot.capacity:
            self._grow(place, slot)
        lists = self._arrays(place, slot)
        heap.items, heap.size = lists.rows, slot.n_rows
        # the lower row precedes among equal sums; positions in the heap are not
        # recorded
        order = HeapOrder(lists.row_total, True, NULL, 0)
        row, column = lists.row[slot.n_sums - 1], lists.column[slot.n_sums - 1]
        if column + 1 == slot.n_messages and not slot.no_more_messages:
            self._extend_message(place, slot, &lists)
        # the sum that was taken last is still at the top of the heap
        if column + 1 < slot.n_messages:
            lists.row_column[row] += 1
            lists.row_total[row] = lists.message[column + 1] + (
                self._arrays(place + 1, self._slot(place + 1, state)).total[row] if row
                else self.links[place].without[state])
            restore(&heap, &order, 0)
        else:
            pop(&heap, &order)
        if column == 0 and self._has_sibling(place):
            before = self._slot(place + 1, state)
            row += 1
            if before.n_sums > row:
                lists.row_total[row], lists.row_column[row] = (
                    self._arrays(place + 1, before).total[row] + lists.message[0], 0)
                push(&heap, &order, <int32_t> row)
        slot.n_rows = <int32_t> heap.size
        if heap.size == 0:
            slot.no_more_sums = True
            return 0
        row = heap.items[0]
        lists.total[slot.n_sums] = lists.row_total[row]
        lists.row[slot.n_sums] = <int32_t> row
        lists.column[slot.n_sums] = lists.row_column[row]
        slot.n_sums += 1
        return 0

    cdef void _extend_message(self, Py_ssize_t place, Slot* slot,
                              Arrays* lists) noexcept nogil:
        """Find the next entry of the message of the variable at a place."""
        cdef Link* link = self.links + place
        cdef Py_ssize_t state = lists.state[slot.n_messages - 1]
        cdef int32_t rank = lists.rank[slot.n_messages - 1] + 1
        cdef Slot* below
        cdef double score = -INFINITY
        # the subtree below a leaf has one labeling per state
        if link.child:
            below = self._slot(link.child, state)
            if below.n_sums > rank:
                score = self._arrays(link.child, below).total[rank]
                link.add_pairs(link, self._state[place], state, state + 1, &score)
        lists.head[state], lists.head_rank[state] = score, rank
        state = first_best(link.n_states, lists.head)
        # forbidden labelings are in no list
        if lists.head[state] == -INFINITY:
            slot.no_more_messages = True
            return
        lists.message[slot.n_messages] = lists.head[state]
        lists.state[slot.n_messages] = <int32_t> state
        lists.rank[slot.n_messages] = lists.head_rank[state]
        slot.n_messages += 1

    # ---- the labelings ----

    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil:
        """Find up to k best labelings; return their number."""
        cdef Py_ssize_t count = 1
        self._number_keys()
        self._begin_lists(1, 0)
        if self.score(0) == -INFINITY:
            return 0
        while count < k and self._next():
            count += 1
        return count

    cdef double score(self, Py_ssize_t rank) noexcept nogil:
        """Score of the labeling of a rank."""
        return self._arrays(1, self._slot(1, 0)).total[rank]

    cdef void read(self, Py_ssize_t rank, int32_t* labels) noexcept nogil:
        """Write the label of each variable in the labeling of a rank."""
        cdef Py_ssize_t place, state
        cdef Link* link = self.links
        cdef Slot* slot
        cdef Arrays lists
        self._label[0], self._rank[1] = 0, <int32_t> rank
        # parents are labeled before their children, and siblings in their order
        for place in range(1, self.n_variables + 1):
            link += 1
            state, rank = self._label[link.parent], self._rank[place]
            if self._slot_of[link.first_key + state] < 0:
                # no slot: the labeling has the best subtree here
                self._label[place] = <int32_t> self._best_state(place, state)
                if link.child:
                    self._rank[link.child] = 0
            else:
                slot = self._slot(place, state)
                lists = self._arrays(place, slot)
                self._label[place] = lists.state[lists.column[rank]]
                if link.child:
                    self._rank[link.child] = lists.rank[lists.column[rank]]
                rank = lists.row[rank]
            if self._has_sibling(place):
                self._rank[place + 1] = <int32_t> rank
            labels[link.variable] = self._label[place]

    cdef Py_ssize_t _best_state(self, Py_ssize_t place,
                                Py_ssize_t state) noexcept nogil:
        """The best state of a variable without a slot, given its parent's state."""
        cdef Link* link = self.links + place
        cdef int32_t* known = self._slot_of + link.first_key + state
        cdef Py_ssize_t other, best = 0
        cdef double score, highest = -INFINITY
        # the state is stored, as the k best labelings share most of their states
        if known[0] == -1:
            for other in range(link.n_states):
                score = link.best[other]
                link.add_pairs(link, state, other, other + 1, &score)
                if score > highest:
                    highest, best = score, other
            known[0] = <int32_t> (-2 - best)
        return -2 - known[0]


def best_labelings(Forest forest, Py_ssize_t k):
    """Find the k best labelings of a forest and their scores; overwrites potentials.

    Parameters
    ----------
    forest : Forest
        Potentials.
    k : int
        Number of labelings.

    Returns
    -------
    labelings : ndarray of shape (n, n_variables), int32
        The n <= k best allowed labelings, in order.
    scores : ndarray of shape (n,)
        Scores of the labelings.
    """
    cdef SubtreeLists lists = SubtreeLists()
    cdef Py_ssize_t n = forest.n_variables, place, parent, count, rank
    memory, starts = list_arrays(forest._arrays[3], forest._rows[1])
    cdef double* without = doubles(memory)
    cdef const Py_ssize_t* first = const_intps(starts)
    cdef int32_t* labels
    cdef double* values
    cdef Link* link
    with nogil:
        lists.begin(n)
        # children come before their parents, so that each row is complete when its
        # message is computed
        for place in range(n, 0, -1):
            parent = forest._above[place]
            link = lists.links + place
            link.variable, link.parent = forest._order[place], <int32_t> parent
            link.n_states = forest._size[place]
            link.best = forest._row(forest._theta, place)
            link.without = without + first[place]
            link.add_pairs = pairs_of_table
            link.table = forest._tables + forest._up[place]
            link.step, link.parent_step = forest._ld[parent], 1
            memcpy(without + first[place], forest._row(forest._theta, parent),
                   forest._ld[parent] * sizeof(double))
            sks_maxplus(link.n_states, forest._ld[parent], link.best, link.table,
                        forest._row(forest._theta, parent))
        count = lists.find(k)
    labelings, scores = topk_results(count, n)
    labels, values = int32s(labelings), doubles(scores)
    for rank in range(count):
        lists.read(rank, labels + rank * n)
        values[rank] = lists.score(rank)
    return labelings, scores
