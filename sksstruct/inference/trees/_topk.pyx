"""The K best labelings of trees and forests (Algorithm 8 of Pillutla et al., 2018).

Each state of a variable has a list of the best labelings of the subtree below it, in
descending order. A variable whose lists are complete is sent to its parent. For each
state of the parent

* the lists of the variable's states are merged, through the table of the edge, into one
  list of at most K entries, the message;
* the list of the parent's state so far and the message are put together: sum (i, j) is
  that of entry i of the list and entry j of the message. Row i of these sums descends,
  and so does the column of their first ones. A heap with the next sum of each row gives
  them in order; row i + 1 is begun when the first sum of row i is taken.

Where each entry came from is kept, so that the labelings can be read off at the end.
Ties: the message takes the lowest state of the variable, the sums take the lowest i.

K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
structured prediction models", NeurIPS 2018.
"""

cimport cython
import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.trees._forest cimport Forest
from sksstruct.inference.trees._messages cimport best_state
from sksstruct.utils._heap cimport Heap, HeapOrder, pop, push, restore

from sksstruct.inference.trees._tree import starts_of


cdef struct Origin:
    # Which entries were put together: that of the list before, and that of the child.
    int32_t rank
    int32_t child_state
    int32_t child_rank


cdef struct Message:
    # The best entries of all states of a child, in descending order.
    Py_ssize_t size
    double* score
    int32_t* state
    int32_t* rank


cdef struct Merge:
    # Scratch of one merge of lists.
    double* head            # of each state of a child: score of its next entry
    int32_t* next_rank
    double* row_sum         # of each row that was begun: its next sum
    int32_t* row_column     # and where it is
    double* merged
    Heap heap               # of the rows
    HeapOrder order


# final: its methods are called directly, which the short ones notice
@cython.final
cdef class SubtreeLists:
    """Lists of the k best labelings of all subtrees of a forest."""

    cdef Forest _forest
    cdef Py_ssize_t _k
    cdef object _arrays             # what the pointers point into
    cdef Py_ssize_t[::1] _most      # entries that a list of each variable can have
    cdef Py_ssize_t[::1] _first_state    # where a variable's states begin in _count
    cdef Py_ssize_t[::1] _first_score    # where its lists begin in _score
    cdef Py_ssize_t[::1] _first_origin   # where those of the edge above it begin
    cdef int32_t[::1] _count        # entries of the list of each state
    cdef double[::1] _score
    cdef Origin* _origin
    cdef Message _message
    cdef Merge _merge

    def __init__(self, Forest forest, Py_ssize_t k):
        cdef Py_ssize_t n = forest.n_variables, child, parent
        self._forest, self._k = forest, k
        # No list is longer than there are labelings below: k may be much larger.
        self._most = np.ones(n + 1, dtype=np.intp)
        for child in range(n, 0, -1):
            parent = forest._above[child]
            self._most[parent] = min(k, self._most[parent] * min(
                k, forest._size[child] * self._most[child]))
        sizes, most = np.asarray(forest._size), np.asarray(self._most)
        lengths = sizes * most
        self._first_state = starts_of(sizes)
        self._first_score = starts_of(lengths)
        self._first_origin = starts_of(
            np.append(0, lengths[np.asarray(forest._above)[1:]]))
        self._count = np.zeros(self._first_state[n + 1], dtype=np.int32)
        self._score = np.empty(self._first_score[n + 1])
        self._set_scratch(np.minimum(lengths, k).max(), most.max(), sizes.max())

    def _set_scratch(self, Py_ssize_t longest_message, Py_ssize_t longest_list,
                     Py_ssize_t most_states):
        """Allocate the memory behind the pointers."""
        # one array of each type: an oracle on a small tree is mostly such calls
        cdef int32_t[:, ::1] origin = np.empty(
            (self._first_origin[self._forest.n_variables + 1], 3), dtype=np.int32)
        cdef double[::1] scores = np.empty(
            longest_message + most_states + 2 * longest_list)
        cdef int32_t[::1] numbers = np.empty(
            2 * longest_message + most_states + 2 * longest_list, dtype=np.int32)
        self._arrays = origin, scores, numbers
        self._origin = <Origin*> &origin[0, 0]
        self._message.score = &scores[0]
        self._merge.head = self._message.score + longest_message
        self._merge.row_sum = self._merge.head + most_states
        self._merge.merged = self._merge.row_sum + longest_list
        self._message.state = &numbers[0]
        self._message.rank = self._message.state + longest_message
        self._merge.next_rank = self._message.rank + longest_message
        self._merge.row_column = self._merge.next_rank + most_states
        self._merge.heap.items = self._merge.row_column + longest_list
        # the lower row comes first among equal sums; nobody asks where rows are
        self._merge.order = HeapOrder(self._merge.row_sum, True, NULL, 0)

    cdef double* _list(self, Py_ssize_t variable, Py_ssize_t state) noexcept nogil:
        """The scores of a state's list."""
        # each state of a variable has room for as many: an index without a table
        return &self._score[0] + (
            self._first_score[variable] + state * self._most[variable])

    cdef Origin* _origins(self, Py_ssize_t child,
                          Py_ssize_t state_of_parent) noexcept nogil:
        """Where the entries of a list of the parent came from, at a child."""
        cdef Py_ssize_t parent = self._forest._above[child]
        return self._origin + (
            self._first_origin[child] + state_of_parent * self._most[parent])

    cdef void fill(self) noexcept nogil:
        """Complete all lists, those of the root last."""
        # `self._forest` is not given a shorter name: that would take the GIL
        cdef Py_ssize_t variable, parent, state
        cdef double score
        # Each list begins with the variable alone, where the state is allowed. For a
        # leaf it is complete.
        for variable in range(self._forest.n_variables + 1):
            for state in range(self._forest._size[variable]):
                score = self._forest._theta[self._forest._first[variable] + state]
                self._list(variable, state)[0] = score
                self._count[self._first_state[variable] + state] = score > -INFINITY
        # children before their parents: lists are complete when they are sent
        for variable in range(self._forest.n_variables, 0, -1):
            parent = self._forest._above[variable]
            # one message for each state of the parent, in the same scratch
            for state in range(self._forest._size[parent]):
                self._form_message(variable, state)
                self._add_message(variable, state)

    cdef void _form_message(self, Py_ssize_t child,
                            Py_ssize_t state_of_parent) noexcept nogil:
        """Merge the lists of a child's states, given the state of its parent."""
        cdef Message* message = &self._message
        cdef Py_ssize_t n_states = self._forest._size[child], state
        cdef Py_ssize_t ld = self._forest._ld[self._forest._above[child]]
        cdef const double* column = (
            &self._forest._tables[self._forest._up[child]] + state_of_parent)
        cdef const int32_t* count = &self._count[self._first_state[child]]
        cdef double* head = self._merge.head
        cdef int32_t* next_rank = self._merge.next_rank
        # The next entry is found by looking at the heads of all lists: there are few
        # states, and the lowest comes first among equal ones.
        message.size = 0
        for state in range(n_states):
            next_rank[state] = 0
            head[state] = next_score(self._list(child, state), count[state], 0,
                                     column[state * ld])
        while message.size < self._k:
            state = best_state(n_states, head)
            # what is forbidden is in no list
            if head[state] == -INFINITY:
                break
            message.score[message.size] = head[state]
            message.state[message.size] = <int32_t> state
            message.rank[message.size] = next_rank[state]
            message.size += 1
            next_rank[state] += 1
            head[state] = next_score(self._list(child, state), count[state],
                                     next_rank[state], column[state * ld])

    cdef void _add_message(self, Py_ssize_t child,
                           Py_ssize_t state_of_parent) noexcept nogil:
        """Put the message of a child together with the list of its parent's state."""
        cdef Py_ssize_t parent = self._forest._above[child], n_merged = 0, row, column
        cdef double* scores = self._list(parent, state_of_parent)
        cdef Origin* origins = self._origins(child, state_of_parent)
        cdef int32_t* count = &self._count[self._first_state[parent] + state_of_parent]
        cdef Message* message = &self._message
        cdef Merge* merge = &self._merge
        # Row i + 1 cannot come before the first sum of row i: the heap has only rows
        # that were begun, one sum of each.
        merge.heap.size = 0
        if count[0] and message.size:
            begin_row(merge, 0, scores[0] + message.score[0])
        while n_merged < self._k and merge.heap.size:
            row = merge.heap.items[0]
            column = merge.row_column[row]
            merge.merged[n_merged] = merge.row_sum[row]
            origins[n_merged] = Origin(<int32_t> row, message.state[column],
                                       message.rank[column])
            n_merged += 1
            if column + 1 < message.size:
                # the row stays in the heap with its next sum, which saves a push
                merge.row_column[row] += 1
                merge.row_sum[row] = scores[row] + message.score[column + 1]
                restore(&merge.heap, &merge.order, 0)
            else:
                pop(&merge.heap, &merge.order)
            if column == 0 and row + 1 < count[0]:
                begin_row(merge, row + 1, scores[row + 1] + message.score[0])
        # Only now: the sums read the list that they replace, and it becomes no shorter
        # than it was, if anything can be put together at all.
        memcpy(scores, merge.merged, n_merged * sizeof(double))
        count[0] = <int32_t> n_merged

    def labelings(self):
        """Return the labelings of the list of the root, and their scores."""
        cdef Py_ssize_t n = self._forest.n_variables, i
        cdef Py_ssize_t count = self._count[0]
        # of the variables on the way down: the rank in the list of their state, which
        # is known when their turn comes
        cdef Py_ssize_t[::1] ranks = np.zeros(n + 1, dtype=np.intp)
        by_place = np.zeros((count, n + 1), dtype=np.int32)
        cdef int32_t[:, ::1] labels = by_place
        with nogil:
            for i in range(count):
                self._read(i, &ranks[0], &labels[i, 0])
        labelings = np.empty((count, n), dtype=np.int32)
        labelings[:, np.asarray(self._forest._order)[1:]] = by_place[:, 1:]
        return labelings, np.array(self._score[:count])

    cdef void _read(self, Py_ssize_t rank, Py_ssize_t* ranks,
                    int32_t* labels) noexcept nogil:
        """The labeling of a rank in the root's list."""
        cdef Py_ssize_t child, parent
        cdef Origin origin
        # the root of roots has one state, number 0, and all labelings
        ranks[0] = rank
        # Parents before their children; and among these, what was put together last is
        # taken apart first.
        for child in range(1, self._forest.n_variables + 1):
            parent = self._forest._above[child]
            origin = self._origins(child, labels[parent])[ranks[parent]]
            labels[child], ranks[child] = origin.child_state, origin.child_rank
            ranks[parent] = origin.rank


cdef inline double next_score(const double* scores, int32_t count, int32_t rank,
                              double pair_score) noexcept nogil:
    """The score of an entry with that of the pair of states, or -inf at the end."""
    return scores[rank] + pair_score if rank < count else -INFINITY


cdef inline void begin_row(Merge* merge, Py_ssize_t row, double value) noexcept nogil:
    """Put a row into the heap, with its first sum."""
    merge.row_sum[row], merge.row_column[row] = value, 0
    push(&merge.heap, &merge.order, <int32_t> row)


def best_labelings(Forest forest, Py_ssize_t k):
    """Find the k best labelings of a forest and their scores.

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
        Their scores.
    """
    cdef SubtreeLists lists = SubtreeLists(forest, k)
    with nogil:
        lists.fill()
    return lists.labelings()
