"""Sweeps of sequential tree-reweighted message passing.

V. Kolmogorov, Convergent tree-reweighted message passing for energy minimization, IEEE
PAMI 28 (2006), for monotonic chains in the order of the variables (Figure 3 there, with
maxima in the place of minima). Node i is in n_i = max(earlier neighbors, later
neighbors) chains and gives each of them 1 / n_i of its reparametrized scores theta'_i,
the beliefs; a sweep sends, from each node i to its later neighbors j,

    M_ij(x_j) = max_{x_i}  theta'_i(x_i) / n_i - M_ji(x_i) + theta_ij(x_i, x_j)

and then the other way. The sum of the chains' maxima is an upper bound that never
rises. Only the messages that are needed next are kept: one vector for each edge.

Factors of three or more variables take part in the same order, as in V. Kolmogorov, A
new look at reweighted message passing, IEEE PAMI 37 (2015). Factor f has a message m_fi
to each of its variables. Node i, unless it is the first of f, takes what f has,

    m_fi(x_i) = max_{x_f with x_i}  theta_f(x_f) - sum_{k != i} m_fk(x_k)

and, unless it is the last of f, gives f its share theta'_i / n_i of all that it has
then, where n_i counts the factors that it takes from or those that it gives to,
whichever are more. Neither raises the sum of all maxima. The first variable of a factor
was its last one in the sweep before, and has what there is to take.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.map.core._problem cimport Problem, entry_from, other_end
from sksstruct.inference.map.message_passing._higher cimport HigherFactors
from sksstruct.inference.map.message_passing._messages cimport Messages
from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_intps, doubles, int32s,
)
from sksstruct.utils._simd cimport sks_largest


cdef class TreeSweeps(Messages):
    """Sweeps over the messages of `TreeReweighted`."""

    cdef const Py_ssize_t* _start   # of the message of each edge
    cdef const double* _share       # the 1 / n_i
    cdef double* _given             # scores of a node given the states read off so far
    cdef double* _out
    cdef int32_t* _labeling
    cdef readonly double score
    # of larger factors: messages to each place of a scope, and first and last variables
    cdef HigherFactors _higher
    cdef double* _taken
    cdef const Py_ssize_t* _start_higher
    cdef const int32_t* _lowest
    cdef const int32_t* _highest

    def __init__(self, Problem problem, arrays):
        Messages.__init__(self, problem, arrays)
        self._start = const_intps(arrays.start)
        self._share = const_doubles(arrays.share)
        self._given, self._out = doubles(arrays.given), doubles(arrays.out)
        self._labeling = int32s(arrays.labeling)
        self._higher = HigherFactors(problem)
        self._taken = doubles(arrays.to_places)
        self._start_higher = const_intps(arrays.scope_start)
        self._lowest = const_int32s(arrays.lowest)
        self._highest = const_int32s(arrays.highest)

    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil:
        """Visit all nodes in their order, or backward."""
        cdef Py_ssize_t i, k, node, n_later, degree
        cdef double ending, work
        self.score = self.bound = 0.0
        for k in range(problem.n_variables):
            node = problem.n_variables - 1 - k if backward else k
            # about: other ends may have more states
            degree = problem.in_larger[node] - problem.in_first[node]
            work = <double>degree * problem.states[node] * problem.states[node]
            for i in range(problem.in_larger[node], problem.in_first[node + 1]):
                work += self._higher.n_entries(problem, problem.in_factor[i])
            if problem.late(1.0 + work):
                self.bound = INFINITY
                break
            n_later = self._gather(problem, node, backward)
            n_later += self._take(problem, node, backward)
            # before messages go on: the labeling depends on earlier states, and on the
            # messages that later neighbors sent in the last sweep
            self._read_off(problem, node)
            # chains that go on count when they arrive; here those that end
            ending = 1.0 - n_later * self._share[node]
            self.bound += ending * sks_largest(
                problem.states[node], &self._beliefs[problem.first[node]])
            self._send_on(problem, node, backward)
            self._give(problem, node, backward)
        return 0

    @cython.final
    cdef inline Py_ssize_t _gather(self, Problem problem, Py_ssize_t node,
                                   bint backward) noexcept nogil:
        """Beliefs of a node, and its scores given earlier states; its later neighbors.
        """
        cdef Py_ssize_t i, j, edge, other, n_later = 0, size = problem.states[node]
        cdef double* belief = &self._beliefs[problem.first[node]]
        cdef double* given = self._given
        cdef const double* message
        memcpy(belief, &problem.unary[problem.first[node]], size * sizeof(double))
        memcpy(given, belief, size * sizeof(double))
        # earlier messages were sent in this sweep, later ones in the last: both count
        for i in range(problem.in_first[node], problem.in_larger[node]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, node)
            message = &self._messages[self._start[edge]]
            for j in range(size):
                belief[j] += message[j]
            if (other < node) != backward:
                # the neighbor has its state: its scores are what counts
                problem.add_states(edge, problem.ends[edge][0] == node,
                                   self._labeling[other], given)
            else:
                n_later += 1
                for j in range(size):
                    given[j] += message[j]
        return n_later

    @cython.final
    cdef inline void _read_off(self, Problem problem,
                               Py_ssize_t node) noexcept nogil:
        """Give a node the best state given the states of earlier nodes."""
        cdef const double* given = self._given
        cdef Py_ssize_t j, best = 0
        # of equal states the first, so that neighbors that tie choose alike
        for j in range(1, problem.states[node]):
            if given[j] > given[best]:
                best = j
        self._labeling[node] = best
        self.score += problem.unary[problem.first[node] + best]

    @cython.final
    cdef inline void _send_on(self, Problem problem, Py_ssize_t node,
                              bint backward) noexcept nogil:
        """Send the messages to later neighbors; score the edges to earlier ones."""
        cdef Py_ssize_t i, j, edge, other
        cdef double share = self._share[node], top
        cdef const double* belief = &self._beliefs[problem.first[node]]
        # the scores given earlier states have been read off: their room is free
        cdef double* reduced = self._given
        cdef double* out = self._out
        cdef double* message
        for i in range(problem.in_first[node], problem.in_larger[node]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, node)
            # an edge is scored when its second end has been read off
            if (other < node) != backward:
                self.score += entry_from(problem, edge, node, self._labeling[node],
                                         self._labeling[other])
                continue
            # one vector for each edge: the message to this node gives its place to the
            # one from it, which is longer or shorter
            message = &self._messages[self._start[edge]]
            for j in range(problem.states[node]):
                reduced[j] = share * belief[j] - message[j]
            problem.message(edge, problem.ends[edge][0] != node, reduced, out)
            # the maximum moves into the bound, so that messages do not grow
            top = sks_largest(problem.states[other], out)
            self.bound += top
            for j in range(problem.states[other]):
                message[j] = out[j] - top

    # ---- factors of three or more variables ----

    @cython.final
    cdef inline Py_ssize_t _take(self, Problem problem, Py_ssize_t node,
                                 bint backward) noexcept nogil:
        """Add what larger factors have to a node; how many of them go on from it."""
        cdef double* belief = &self._beliefs[problem.first[node]]
        cdef double* given = self._given
        cdef const double* message
        cdef Py_ssize_t i, k, factor, place, n_later = 0
        for i in range(problem.in_larger[node], problem.in_first[node + 1]):
            factor, place = problem.in_factor[i], problem.in_place[i]
            if node != self._first_of(factor, backward):
                self._pull(problem, factor, place, backward)
            message = &self._taken[self._start_higher[place]]
            for k in range(problem.states[node]):
                belief[k] += message[k]
            if node != self._first_of(factor, not backward):
                n_later += 1
                for k in range(problem.states[node]):
                    given[k] += message[k]
                continue
            # all others have their states: the scores with them are what counts
            for k in range(problem.states[node]):
                self._labeling[node] = k
                given[k] += problem.higher_entry(factor, self._labeling)
        return n_later

    @cython.final
    cdef inline Py_ssize_t _first_of(self, Py_ssize_t factor,
                                     bint backward) noexcept nogil:
        """The variable of a larger factor that a sweep visits first."""
        return self._highest[factor] if backward else self._lowest[factor]

    @cython.final
    cdef void _pull(self, Problem problem, Py_ssize_t factor, Py_ssize_t place,
                    bint backward) noexcept nogil:
        """New message of a larger factor to the variable at a place."""
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k
        cdef Py_ssize_t variable = problem.scope[place]
        cdef Py_ssize_t width = self._higher.width
        cdef const double* found = self._higher.best + (place - begin) * width
        cdef double* incoming = self._higher.incoming
        cdef double* message
        cdef double top
        for i in range(begin, problem.scope_first[factor + 1]):
            message = &self._taken[self._start_higher[i]]
            for k in range(problem.states[problem.scope[i]]):
                incoming[k] = 0.0 if i == place else -message[k]
            incoming += width
        self._higher.maximize_for(problem, factor, place - begin)
        top = sks_largest(problem.states[variable], found)
        # messages do not grow; what the last one leaves out is the maximum of the rest
        if variable == self._first_of(factor, not backward):
            self.bound += top
        message = &self._taken[self._start_higher[place]]
        for k in range(problem.states[variable]):
            message[k] = found[k] - top

    @cython.final
    cdef inline void _give(self, Problem problem, Py_ssize_t node,
                           bint backward) noexcept nogil:
        """Give larger factors their shares; score those that have all their states."""
        cdef const double* belief = &self._beliefs[problem.first[node]]
        cdef double* message
        cdef Py_ssize_t i, k, factor
        for i in range(problem.in_larger[node], problem.in_first[node + 1]):
            factor = problem.in_factor[i]
            if node == self._first_of(factor, not backward):
                self.score += problem.higher_entry(factor, self._labeling)
                continue
            message = &self._taken[self._start_higher[problem.in_place[i]]]
            for k in range(problem.states[node]):
                message[k] -= self._share[node] * belief[k]
