"""Spanning forests of a factor graph, which together contain every factor.

A forest is a set of factors without a cycle: no two variables of a factor are connected
by the factors before it. The caller orders the factors, those of the fewest earlier
forests first. A factor of two variables whose removal disconnects the graph is in every
forest.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.inference.map.core._problem cimport (
    Problem, arity_of, variable_at,
)
from sksstruct.utils._sets cimport root_of


def draw_forest(Problem problem, const Py_ssize_t[::1] order):
    """Build a maximal forest of factors, which are tried in the given order.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    order : ndarray of shape (n_factors,), intp
        Factors, in the order in which they are tried. Larger factors are numbered after
        the edges.

    Returns
    -------
    factors, parents : ndarrays of shape (n_members,), intp
        The factors of the forest, leaves first; and for each factor the place in its
        scope of the parent, the variable next to the root.
    """
    cdef Py_ssize_t k, factor, n = len(order)
    cdef int32_t[::1] root = np.arange(problem.n_variables, dtype=np.int32)
    cdef signed char[::1] inside = np.zeros(n, dtype=np.int8)
    with nogil:
        for k in range(n):
            factor = order[k]
            if _connects(problem, factor, &root[0]):
                inside[factor] = 1
    return _from_leaves(problem, inside)


cdef bint _connects(Problem problem, Py_ssize_t factor,
                    int32_t* root) noexcept nogil:
    """Connect the variables of a factor; False: two of them are connected already."""
    cdef Py_ssize_t i, j, top, arity = arity_of(problem, factor)
    # this test takes quadratic time in the arity, which is small
    for i in range(arity):
        top = root_of(root, variable_at(problem, factor, i))
        for j in range(i):
            if root_of(root, variable_at(problem, factor, j)) == top:
                return False
    top = root_of(root, variable_at(problem, factor, 0))
    for i in range(1, arity):
        root[root_of(root, variable_at(problem, factor, i))] = top
    return True


cdef _from_leaves(Problem problem, signed char[::1] inside):
    """Order the factors of a forest from the leaves to the roots."""
    cdef Py_ssize_t n = problem.n_variables, size = np.count_nonzero(inside)
    cdef Py_ssize_t[::1] queue = np.empty(n, dtype=np.intp)
    cdef signed char[::1] visited = np.zeros(n, dtype=np.int8)
    cdef Py_ssize_t[::1] factors = np.empty(size, dtype=np.intp)
    cdef Py_ssize_t[::1] parents = np.empty(size, dtype=np.intp)
    cdef Py_ssize_t start, head = 0, tail = 0, variable, i, j, factor
    with nogil:
        for start in range(n):
            if visited[start]:
                continue
            visited[start], queue[tail] = 1, start
            tail += 1
            # breadth first from the root; fills `factors` from its end
            while head < tail:
                variable = queue[head]
                head += 1
                for i in range(problem.in_first[variable],
                               problem.in_first[variable + 1]):
                    factor = problem.in_factor[i]
                    if not inside[factor]:
                        continue
                    inside[factor] = 0
                    size -= 1
                    factors[size] = factor
                    for j in range(arity_of(problem, factor)):
                        if variable_at(problem, factor, j) == variable:
                            parents[size] = j
                            continue
                        visited[variable_at(problem, factor, j)] = 1
                        queue[tail] = variable_at(problem, factor, j)
                        tail += 1
    return np.asarray(factors), np.asarray(parents)
