"""The k best placements of trees of parts, by `inference/trees/_topk.pyx`.

Messages are sent up once, by distance transforms. The lists of a part need the scores
of all its positions given a position of the parent, which are computed from
displacements: no table of all pairs is formed, and one more placement costs
O(positions) for a few parts.

The type of an edge is part of the state of the part below: states are pairs of a type
and a position. If types are not part of a placement, a pair of positions has the score
of its best type.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.parts._parts cimport Deformation, PartsTree
from sksstruct.inference.trees._topk cimport Link, SubtreeLists, first_best, no_pairs
from sksstruct.utils._pointers cimport doubles, int32s

from sksstruct.inference.parts._arrays import labelings, list_arrays, split_states


cdef struct Joint:
    # The edge above a part. `width` and `cells` are the sizes of the grid.
    # `deformations` has two entries for each type, for rows and for columns, from the
    # child to the parent. `bias` has the score of each type. `at_parent` and `at_child`
    # have the scores of type 0 at the positions of the two parts; those of the next
    # type are `stride` entries later. `bias` and `at_parent` are NULL without such
    # scores. If `best_type`, a pair of positions has the score of its best type.
    Py_ssize_t width, cells, n_types, stride
    bint best_type
    const Deformation* deformations
    const double* bias
    const double* at_parent
    const double* at_child


cdef inline double joint_score(const Joint* joint, Py_ssize_t t, Py_ssize_t parent,
                               Py_ssize_t child) noexcept nogil:
    """Return the score of an edge of type t between two positions."""
    cdef const Deformation* rows = joint.deformations + 2 * t
    cdef const Deformation* columns = rows + 1
    cdef double down = parent // joint.width - child // joint.width - rows.offset
    cdef double right = parent % joint.width - child % joint.width - columns.offset
    cdef double score = (down * (rows.linear - rows.quadratic * down)
                         + right * (columns.linear - columns.quadratic * right))
    if joint.bias != NULL:
        score += joint.bias[t]
    if joint.at_parent != NULL:
        score += joint.at_parent[t * joint.stride + parent]
        score += joint.at_child[t * joint.stride + child]
    return score


cdef void add_joint(const Link* link, Py_ssize_t state_of_parent, Py_ssize_t first,
                    Py_ssize_t stop, double* out) noexcept nogil:
    """Add the edge scores of a parent's state and the child's states to `out`.

    The child's states are first..stop - 1. See `AddPairs`.
    """
    cdef const Joint* joint = <const Joint*> link.table
    cdef Py_ssize_t parent = state_of_parent % joint.cells, state, t
    cdef double best
    for state in range(first, stop):
        if not joint.best_type:
            out[state - first] += joint_score(
                joint, state // joint.cells, parent, state % joint.cells)
            continue
        best = -INFINITY
        for t in range(joint.n_types):
            best = max(best, joint_score(joint, t, parent, state))
        out[state - first] += best


cdef class BestPlacements(PartsTree):
    """Search for the k best placements of the parts of a tree.

    Parameters
    ----------
    unary, edges, offsets, quadratic, linear, bias, ends : objects
        See `PartsTree`.
    """

    cdef Py_ssize_t _n_copies
    # For each part and state: the best score of the subtree below the part. For each
    # part and state of its parent: the parent's score without the messages of this part
    # and of its earlier siblings.
    cdef double* _best
    cdef double* _without
    cdef Joint* _joints
    cdef Deformation* _deformations

    def find(self, k, bint with_types=False):
        """Find up to k best placements of parts, and their types.

        Parameters
        ----------
        k : int
            Number of placements.
        with_types : bool, default=False
            Whether types are part of a placement. If not, placements differ in
            positions, each with its best types.

        Returns
        -------
        labelings : ndarray of shape (n, n_parts) or (n, n_parts + n_edges), int32
            Positions of the parts, row * width + column, followed by types of edges.
        """
        cdef SubtreeLists lists = SubtreeLists()
        cdef Py_ssize_t n = self.n_variables, most = min(k, 2**31 - 1), count, rank
        cdef Py_ssize_t n_types = max(self.n_types, 1)
        cdef int32_t* rows_of_states
        self._n_copies = n_types if with_types else 1
        best, without = list_arrays(self, self._n_copies)
        joints = bytearray(n * sizeof(Joint))
        deformations = bytearray(2 * n * n_types * sizeof(Deformation))
        self._best, self._without = doubles(best), doubles(without)
        self._joints = <Joint*> <char*> joints
        self._deformations = <Deformation*> <char*> deformations
        with nogil:
            lists.begin(n)
            self._link(lists)
            count = lists.find(most)
        states = labelings(count, n)
        rows_of_states = int32s(states)
        for rank in range(count):
            lists.read(rank, rows_of_states + rank * n)
        return split_states(states, self, self._arrays[1], with_types)

    cdef void _link(self, SubtreeLists lists) noexcept nogil:
        """Send messages to parents, and fill in the links of the lists of subtrees."""
        cdef Py_ssize_t cells = self._cells, size = cells * self._n_copies
        cdef Py_ssize_t place, part, parent, t
        cdef double total = 0.0
        cdef double* without
        cdef Link* link
        # children come before parents, whose scores of subtrees are then complete
        for place in range(self.n_variables, 0, -1):
            part, link = self._order[place], lists.links + place
            link.variable, link.parent = <int32_t> part, self._above[place]
            link.best = self._best + part * size
            link.without = without = self._without + part * size
            link.n_states, link.add_pairs = <int32_t> cells, no_pairs
            if link.parent == 0:
                # the root of roots has one state, with the best scores of all trees so
                # far
                without[0] = total
                total += link.best[first_best(cells, link.best)]
                continue
            link.n_states = <int32_t> (cells * self._n_copies)
            parent = self._order[link.parent]
            for t in range(self._n_copies):
                memcpy(without + t * cells, self._best + parent * size,
                       cells * sizeof(double))
                if t:
                    memcpy(self._best + part * size + t * cells, link.best,
                           cells * sizeof(double))
            self._deform(part, True, link.best, self._best + parent * size, NULL)
            link.add_pairs = add_joint
            link.table = <const double*> self._join(part)

    cdef Joint* _join(self, Py_ssize_t part) noexcept nogil:
        """Fill in and return the scores of the edge above a part."""
        cdef Joint* joint = self._joints + part
        cdef Py_ssize_t edge = self._edge[part], t, axis
        cdef Py_ssize_t end = self._ends[2 * edge + 1] == part
        cdef Deformation* deformations
        joint.width, joint.cells = self.width, self._cells
        joint.n_types, joint.stride = max(self.n_types, 1), 2 * self._cells
        joint.best_type = joint.n_types > self._n_copies
        deformations = self._deformations + 2 * part * joint.n_types
        for t in range(joint.n_types):
            for axis in range(2):
                deformations[2 * t + axis] = self._deformation(part, t, True, axis)
        joint.deformations = deformations
        joint.bias = joint.at_parent = NULL
        if self.n_types:
            joint.bias = self._bias + edge * self.n_types
        if self._end_scores != NULL:
            joint.at_child = self._ends_of(edge, 0, end)
            joint.at_parent = self._ends_of(edge, 0, 1 - end)
        return joint
