"""Projection onto the local polytopes of the trees of a forest, one after the other."""

from cpython.exc cimport PyErr_CheckSignals
from libc.string cimport memset

from sksstruct.projections._multipliers cimport TreeProblem, first_dual
from sksstruct.projections._newton cimport minimize
from sksstruct.utils._pointers cimport (
    const_doubles, const_int8s, const_intps, doubles,
)


def project_trees(Py_ssize_t n_states, first, edge, is_turned, inverse, younger, eldest,
                  before, duals, tables, mass, scratch, out):
    """Project the tables of all edges of a forest onto the trees' local polytopes.

    Arrays of all trees are concatenated; numbers of tables in them count within a tree.

    Parameters
    ----------
    n_states : int
        Number of labels.
    first : ndarray of shape (n_trees + 1,), intp
        Offsets of the tables of each tree.
    edge, is_turned, inverse, younger, eldest, before : ndarray of shape (n_edges,)
        As in `TreeProblem`.
    duals : ndarray
        Initial multipliers, overwritten with the optimal ones.
    tables, out : ndarray of shape (n_edges, n_states, n_states)
        The tables to project, and the projection.
    mass : ndarray of shape (n_trees,)
        Mass of each tree.
    scratch : ndarray
        Memory of `project_tree` for the largest tree.

    Returns
    -------
    violation : float
        The largest violation of a constraint, as a fraction of the mass.
    """
    cdef Py_ssize_t i, n_trees = len(mass)
    cdef const Py_ssize_t* start = const_intps(first)
    cdef const double* masses = const_doubles(mass)
    cdef double* dual = doubles(duals)
    cdef double* memory = doubles(scratch)
    cdef double* projection = doubles(out)
    cdef double worst = 0.0, violation
    cdef TreeProblem tree
    tree.n_states, tree.m = n_states, const_doubles(tables)
    tree.edge, tree.inverse = const_intps(edge), const_doubles(inverse)
    tree.is_turned = <const char*> const_int8s(is_turned)
    tree.younger, tree.eldest = const_intps(younger), const_intps(eldest)
    tree.before = const_intps(before)
    with nogil:
        for i in range(n_trees):
            tree.n_tables, tree.mass = start[i + 1] - start[i], masses[i]
            violation = project_tree(&tree, dual, memory, projection) / masses[i]
            worst = violation if violation > worst else worst
            dual += first_dual(tree.n_tables, n_states)
            tree.edge += tree.n_tables
            tree.is_turned += tree.n_tables
            tree.inverse += tree.n_tables
            tree.younger += tree.n_tables
            tree.eldest += tree.n_tables
            tree.before += tree.n_tables
            # a large tree may take a second, and a forest minutes
            with gil:
                PyErr_CheckSignals()
    return worst


cdef double project_tree(TreeProblem* tree, double* duals, double* memory,
                         double* out) noexcept nogil:
    """Project the tables m of a tree onto its local polytope; write them to `out`.

    `duals` has the initial multipliers, and receives the optimal ones. `memory` has
    3 n_tables n_states (n_states + 1) + 4 n_states + 3 numbers. Returns the largest
    violation of a constraint.
    """
    cdef Py_ssize_t n = first_dual(tree.n_tables, tree.n_states)
    cdef Py_ssize_t blocks = tree.n_tables * tree.n_states * tree.n_states
    tree.start, tree.gradient, tree.step = memory, memory + n, memory + 2 * n
    tree.lines = memory + 3 * n
    memory += 3 * n + 3 * blocks
    tree.shift, tree.total = memory, memory + tree.n_states
    memory += 2 * tree.n_states
    # two vectors at the end of the memory, of which `zeros` stays zero
    memset(memory, 0, 2 * tree.n_states * sizeof(double))
    tree.zeros, tree.unused = memory, memory + tree.n_states
    return minimize(tree, duals, out)
