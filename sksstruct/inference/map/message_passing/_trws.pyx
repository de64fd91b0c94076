"""Sweeps of sequential tree-reweighted message passing.

V. Kolmogorov, Convergent tree-reweighted message passing for energy minimization, IEEE
PAMI 28 (2006), for monotonic chains in the order of the variables (Figure 3 there, with
maxima in place of minima). Node i is in n_i = max(earlier neighbors, later neighbors)
chains, each of which has a share 1 / n_i of the node's reparametrized scores theta'_i,
the beliefs. A forward sweep sends, from each node i to its later neighbors j,

    M_ij(x_j) = max_{x_i}  theta'_i(x_i) / n_i - M_ji(x_i) + theta_ij(x_i, x_j)

and a backward sweep sends messages to earlier neighbors. The sum of the chains' maxima
is an upper bound that never rises. Each edge stores one vector, the message that the
next sweep reads.

Factors of three or more variables are updated in the same order, as in V. Kolmogorov, A
new look at reweighted message passing, IEEE PAMI 37 (2015). Factor f has a message m_fi
to each of its variables. Node i, unless it is the first of f, receives the
max-marginals

    m_fi(x_i) = max_{x_f with x_i}  theta_f(x_f) - sum_{k != i} m_fk(x_k)

and, unless it is the last of f, sends the share theta'_i / n_i of its beliefs to f. The
number n_i is the number of factors from which node i receives or the number of factors
to which it sends, whichever is larger. Neither update raises the sum of all maxima. The
first variable of a factor was the last one in the sweep before, and received the
factor's max-marginals then.
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

    cdef const Py_ssize_t* _start   # offset of the message of each edge
    cdef const double* _share       # 1 / n_i of each node
    cdef double* _given             # scores of a node given the states of earlier nodes
    cdef double* _out
    cdef int32_t* _labeling
    cdef readonly double score
    # larger factors: workspace; messages to the variables at all places of the scopes,
    # and their offsets; and the variables of least and of largest index of each factor
    cdef HigherFactors _higher
    cdef double* _factor_messages
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
        self._factor_messages = doubles(arrays.to_places)
        self._start_higher = const_intps(arrays.scope_start)
        self._lowest = const_int32s(arrays.lowest)
        self._highest = const_int32s(arrays.highest)

    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil:
        """Update the beliefs, state and outgoing messages of all nodes in order.

        With `backward`, the order of the nodes is reversed.
        """
        cdef Py_ssize_t i, k, node, n_later, degree
        cdef double ending, work
        self.score = self.bound = 0.0
        for k in range(problem.n_variables):
            node = problem.n_variables - 1 - k if backward else k
            # estimate: the other ends of the edges may have more states
            degree = problem.in_larger[node] - problem.in_first[node]
            work = <double>degree * problem.states[node] * problem.states[node]
            for i in range(problem.in_larger[node], problem.in_first[node + 1]):
                work += self._higher.n_entries(problem, problem.in_factor[i])
            if problem.late(1.0 + work):
                self.bound = INFINITY
                break
            n_later = self._gather(problem, node, backward)
            n_later += self._add_factor_messages(problem, node, backward)
            # decode before sending: the state depends on earlier states and on messages
            # of later neighbors, which `_send_to_neighbors` overwrites
            self._decode(problem, node)
            # chains that end at this node add their maxima to the bound; the maxima of
            # chains that go on are passed to later nodes in the messages
            ending = 1.0 - n_later * self._share[node]
            self.bound += ending * sks_largest(
                problem.states[node], &self._beliefs[problem.first[node]])
            self._send_to_neighbors(problem, node, backward)
            self._send_to_factors(problem, node, backward)
        return 0

    @cython.final
    cdef inline Py_ssize_t _gather(self, Problem problem, Py_ssize_t node,
                                   bint backward) noexcept nogil:
        """Compute the beliefs of a node, and its scores given earlier nodes' states.

        Returns the number of edges to later neighbors.
        """
        cdef Py_ssize_t i, j, edge, other, n_later = 0, size = problem.states[node]
        cdef double* belief = &self._beliefs[problem.first[node]]
        cdef double* given = self._given
        cdef const double* message
        memcpy(belief, &problem.unary[problem.first[node]], size * sizeof(double))
        memcpy(given, belief, size * sizeof(double))
        # earlier neighbors sent messages in this sweep, later neighbors in the last
        # sweep
        for i in range(problem.in_first[node], problem.in_larger[node]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, node)
            message = &self._messages[self._start[edge]]
            for j in range(size):
                belief[j] += message[j]
            if (other < node) != backward:
                # the earlier neighbor has a state: add the edge's scores given this
                # state, and not the message
                problem.add_states(edge, problem.ends[edge][0] == node,
                                   self._labeling[other], given)
            else:
                n_later += 1
                for j in range(size):
                    given[j] += message[j]
        return n_later

    @cython.final
    cdef inline void _decode(self, Problem problem,
                             Py_ssize_t node) noexcept nogil:
        """Set the best state of a node given the states of earlier nodes."""
        cdef const double* given = self._given
        cdef Py_ssize_t j, best = 0
        # ties go to the first state, so that tied neighbors have equal states
        for j in range(1, problem.states[node]):
            if given[j] > given[best]:
                best = j
        self._labeling[node] = best
        self.score += problem.unary[problem.first[node] + best]

    @cython.final
    cdef inline void _send_to_neighbors(self, Problem problem, Py_ssize_t node,
                                        bint backward) noexcept nogil:
        """Send messages to later neighbors; add up scores of edges to earlier ones."""
        cdef Py_ssize_t i, j, edge, other
        cdef double share = self._share[node], top
        cdef const double* belief = &self._beliefs[problem.first[node]]
        # `_given` is unused after decoding
        cdef double* reduced = self._given
        cdef double* out = self._out
        cdef double* message
        for i in range(problem.in_first[node], problem.in_larger[node]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, node)
            # if the neighbor is earlier, both ends of the edge have states
            if (other < node) != backward:
                self.score += entry_from(problem, edge, node, self._labeling[node],
                                         self._labeling[other])
                continue
            # the new message overwrites the message to this node, which may be longer
            # or shorter
            message = &self._messages[self._start[edge]]
            for j in range(problem.states[node]):
                reduced[j] = share * belief[j] - message[j]
            problem.message(edge, problem.ends[edge][0] != node, reduced, out)
            # move the message's maximum to the bound, so that messages stay bounded
            top = sks_largest(problem.states[other], out)
            self.bound += top
            for j in range(problem.states[other]):
                message[j] = out[j] - top

    # ---- factors of three or more variables ----

    @cython.final
    cdef inline Py_ssize_t _add_factor_messages(self, Problem problem, Py_ssize_t node,
                                                bint backward) noexcept nogil:
        """Add messages of larger factors to the beliefs and given scores of a node.

        Returns the number of larger factors that have later variables.
        """
        cdef double* belief = &self._beliefs[problem.first[node]]
        cdef double* given = self._given
        cdef const double* message
        cdef Py_ssize_t i, k, factor, place, n_later = 0
        for i in range(problem.in_larger[node], problem.in_first[node + 1]):
            factor, place = problem.in_factor[i], problem.in_place[i]
            if node != self._first_of(factor, backward):
                self._update_place(problem, factor, place, backward)
            message = &self._factor_messages[self._start_higher[place]]
            for k in range(problem.states[node]):
                belief[k] += message[k]
            if node != self._first_of(factor, not backward):
                n_later += 1
                for k in range(problem.states[node]):
                    given[k] += message[k]
                continue
            # the node is the last variable of the factor: add the factor's scores given
            # the states of its other variables
            for k in range(problem.states[node]):
                self._labeling[node] = k
                given[k] += problem.higher_entry(factor, self._labeling)
        return n_later

    @cython.final
    cdef inline Py_ssize_t _first_of(self, Py_ssize_t factor,
                                     bint backward) noexcept nogil:
        """Return the variable of a larger factor that a sweep visits first."""
        return self._highest[factor] if backward else self._lowest[factor]

    @cython.final
    cdef void _update_place(self, Problem problem, Py_ssize_t factor, Py_ssize_t place,
                            bint backward) noexcept nogil:
        """Update the message of a larger factor to the variable `scope[place]`."""
        cdef Py_ssize_t begin = problem.scope_first[factor], i, k
        cdef Py_ssize_t variable = problem.scope[place]
        cdef Py_ssize_t width = self._higher.width
        cdef const double* max_marginals = self._higher.best + (place - begin) * width
        cdef double* incoming = self._higher.incoming
        cdef double* message
        cdef double top
        for i in range(begin, problem.scope_first[factor + 1]):
            message = &self._factor_messages[self._start_higher[i]]
            for k in range(problem.states[problem.scope[i]]):
                incoming[k] = 0.0 if i == place else -message[k]
            incoming += width
        self._higher.maximize_for(problem, factor, place - begin)
        top = sks_largest(problem.states[variable], max_marginals)
        # The maximum is subtracted, so that messages stay bounded. It remains in the
        # factor's scores minus messages, until the last variable adds it to the bound.
        if variable == self._first_of(factor, not backward):
            self.bound += top
        message = &self._factor_messages[self._start_higher[place]]
        for k in range(problem.states[variable]):
            message[k] = max_marginals[k] - top

    @cython.final
    cdef inline void _send_to_factors(self, Problem problem, Py_ssize_t node,
                                      bint backward) noexcept nogil:
        """Send shares of a node's beliefs to larger factors that have later variables.

        Adds the score of each factor whose last variable is `node` to `score`.
        """
        cdef const double* belief = &self._beliefs[problem.first[node]]
        cdef double* message
        cdef Py_ssize_t i, k, factor
        for i in range(problem.in_larger[node], problem.in_first[node + 1]):
            factor = problem.in_factor[i]
            if node == self._first_of(factor, not backward):
                self.score += problem.higher_entry(factor, self._labeling)
                continue
            message = &self._factor_messages[self._start_higher[problem.in_place[i]]]
            for k in range(problem.states[node]):
                message[k] -= self._share[node] * belief[k]
