"""Parts on a grid: a position for each part, and springs between them.

Score of positions l_p of the parts p and of types t_e of the edges, with features F of
every position, and with d_e = (l_v - l_u - offset_{e,t}) / scale_e for an edge
e = (u, v) of type t, by rows and by columns (Osokin et al., 2016, I.4):

    sum_p F[l_p] . W[:, p] + bias[p]
        + sum_e linear_{e,t} . d_e - quadratic_{e,t} . d_e^2 + bias_{e,t}
        + sum_e F[l_u] . V[:, (e, t, 0)] + F[l_v] . V[:, (e, t, 1)]

quadratic >= 0, so that messages are distance transforms. The last line is for types
whose scores depend on the image; edges without types have neither it nor bias_{e,t}.
The loss is the mean over the parts of min(1, |l_p - truth_p|^2 / unit^2).

A labeling is the position of each part, row * width + column, and then the type of each
edge, if there are types. The first table has a row of ld >= n_parts entries for each
position, the parts and padding. A second table, for V, has two columns for each type of
each edge.

The features of a spring depend on the labeling, so that its keys, one for each
displacement, lie beyond the tables. Springs, one for each type of an edge, are numbered
edge by edge. Displacements are between 1 - height and height - 1, and 1 - width and
width - 1; keys count them from zero, spring by spring, the rows first. The weights of a
spring (linear by rows and by columns, then quadratic, then the bias of its type) lie
beyond the blocks, and each is a separate row. An axis is 0 for rows, 1 for columns.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.parts._sums cimport (
    Spring, grid_ld, scratch_size, sum_product,
)
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.models.protocols._bound_model cimport in_range
from sksstruct.models.tables._structure cimport Potentials, Structure
from sksstruct.utils._pointers cimport const_doubles, const_intps


cdef inline double miss(PartsKernel model, Py_ssize_t i, Py_ssize_t part,
                        Py_ssize_t position) noexcept nogil:
    """Return the loss of a part at a position."""
    cdef Py_ssize_t width = model._shapes[2 * i + 1]
    cdef Py_ssize_t observed = model._y_true[model._starts[i] + part]
    cdef double row = position // width - observed // width
    cdef double column = position % width - observed % width
    cdef double square = (row * row + column * column) / (
        model._units[i] * model._units[i])
    # the cost is capped: at a distance above the unit, a part costs the same
    return (square if square < 1.0 else 1.0) / model.n_parts


cdef class PartsKernel(Structure):
    """Positions of parts, and types of edges; see `Parts`, the subclass in Python."""

    # height and width of each image; the ends of each edge
    cdef const Py_ssize_t* _shapes
    cdef const Py_ssize_t* _edges
    # units of each image; offsets and scales of each spring, for rows and columns
    cdef const double* _units
    cdef const double* _offsets
    cdef const double* _scales
    # number of parts; length of the rows of the first table, and of the second table,
    # zero if there is none
    cdef readonly Py_ssize_t n_parts, ld, type_ld
    # whether edges have types, each of which is a spring
    cdef readonly bint typed
    cdef Py_ssize_t _n_edges, _n_types
    cdef readonly Py_ssize_t n_springs
    cdef Tree _tree
    # arrays that the pointers point into
    cdef object _buffers

    def set_tables(self, Py_ssize_t n_parts, Py_ssize_t ld, Py_ssize_t type_ld, shapes,
                   units):
        """Set the sizes of tables and of images, and the units of the loss, or None."""
        self.n_parts, self.ld, self.type_ld = n_parts, ld, type_ld
        self._buffers = [shapes, units]
        self._shapes = const_intps(shapes)
        if units is not None:
            self._units = const_doubles(units)

    def set_springs(self, Tree tree, edges, bint typed, offsets, scales,
                    Py_ssize_t most_keys):
        """Set the edges, and the springs, one for each type of each edge."""
        cdef Py_ssize_t i
        self._tree, self.typed = tree, typed
        self._buffers += [edges, offsets, scales]
        self._edges, self._n_edges = const_intps(edges), len(edges)
        self._offsets, self._scales = const_doubles(offsets), const_doubles(scales)
        self.n_springs, self.most_other_keys = len(offsets), most_keys
        self._n_types = self.n_springs // max(self._n_edges, 1)
        self.others_of_key = 4 + typed
        self.n_others = self.others_of_key * self.n_springs
        # all images are tried, as the largest need not take the most memory
        for i in range(0 if typed else self.n_examples):
            self.memory_size = max(self.memory_size, self._sums_memory(
                self._shapes[2 * i], self._shapes[2 * i + 1]))

    # ---- springs: keys and weights beyond the tables ----

    cdef Py_ssize_t other_keys(self, Py_ssize_t i) noexcept nogil:
        # a key for each displacement of each spring
        return self.n_springs * (
            (2 * self._shapes[2 * i] - 1) * (2 * self._shapes[2 * i + 1] - 1))

    cdef inline Py_ssize_t _spring_of(self, Py_ssize_t i, Py_ssize_t key,
                                      double* displacement) noexcept nogil:
        """Return the spring of a key, and write d_e, by rows and by columns."""
        cdef Py_ssize_t n_rows = 2 * self._shapes[2 * i] - 1
        cdef Py_ssize_t n_columns = 2 * self._shapes[2 * i + 1] - 1
        cdef Py_ssize_t number = key // (n_rows * n_columns)
        # the middle key of both axes stands for a displacement of zero
        cdef Py_ssize_t row = key // n_columns - number * n_rows - n_rows // 2
        cdef Py_ssize_t column = key % n_columns - n_columns // 2
        cdef const double* offset = self._offsets + 2 * number
        cdef const double* scale = self._scales + 2 * number
        displacement[0] = (row - offset[0]) / scale[0]
        displacement[1] = (column - offset[1]) / scale[1]
        return number

    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* others) noexcept nogil:
        cdef double[2] displacement
        cdef Py_ssize_t axis, number = self._spring_of(i, key, displacement)
        cdef const double* weights = others + self.others_of_key * number
        cdef double value = weights[4] if self.typed else 0.0
        for axis in range(2):
            value += (weights[axis] * displacement[axis]
                      - weights[2 + axis] * displacement[axis] * displacement[axis])
        return value

    cdef Py_ssize_t add_other(self, Py_ssize_t i, Py_ssize_t key, double change,
                              double* others) except -1 nogil:
        cdef double[2] displacement
        cdef Py_ssize_t axis, number = self._spring_of(i, key, displacement)
        cdef double* weights = others + self.others_of_key * number
        for axis in range(2):
            weights[axis] += change * displacement[axis]
            weights[2 + axis] -= change * displacement[axis] * displacement[axis]
        if self.typed:
            weights[4] += change
        return self.others_of_key * number

    # ---- labelings and their losses ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return (in_range(self.n_parts, y, 0, self._n_positions(i))
                and (not self.typed or in_range(
                    self._n_edges, y + self.n_parts, 0, self._n_types)))

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t height = self._shapes[2 * i], width = self._shapes[2 * i + 1]
        cdef Py_ssize_t part, edge, number, row, column, u, v, second
        cdef Py_ssize_t end = height * width * self.ld, count = self.n_parts
        # no key occurs twice: parts have different columns, and springs different
        # ranges of keys
        for part in range(self.n_parts):
            keys[part] = <int32_t> (y[part] * self.ld + part)
        # types have separate columns, too, one for each end of an edge
        if self.type_ld:
            second = self.type_ld
            for edge in range(self._n_edges):
                number = self._spring(edge, y)
                u, v = y[self._edges[2 * edge]], y[self._edges[2 * edge + 1]]
                keys[count] = <int32_t> (end + u * second + 2 * number)
                keys[count + 1] = <int32_t> (end + v * second + 2 * number + 1)
                count += 2
            end += height * width * second
        for edge in range(self._n_edges):
            number = self._spring(edge, y)
            u, v = y[self._edges[2 * edge]], y[self._edges[2 * edge + 1]]
            row, column = v // width - u // width, v % width - u % width
            # the inverse of `_spring_of`, counted from the end of the tables
            row += number * (2 * height - 1) + height - 1
            keys[count] = <int32_t> (
                end + row * (2 * width - 1) + column + width - 1)
            count += 1
        return count

    cdef inline Py_ssize_t _spring(self, Py_ssize_t edge,
                                   const int32_t* y) noexcept nogil:
        """Return the number of the spring that an edge has in a labeling."""
        return self._n_types * edge + (y[self.n_parts + edge] if self.typed else 0)

    cdef Py_ssize_t _n_positions(self, Py_ssize_t i) noexcept nogil:
        """Return the number of positions of an image."""
        return self._shapes[2 * i] * self._shapes[2 * i + 1]

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t position, part
        for position in range(self._n_positions(i)):
            for part in range(self.n_parts):
                at.theta[position * self.ld + part] += (
                    scale * miss(self, i, part, position))
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t part
        value[0] = 0.0
        for part in range(self.n_parts):
            value[0] += miss(self, i, part, y[part])
        return 0

    # ---- oracles ----

    cdef Py_ssize_t _sums_memory(self, Py_ssize_t height,
                                 Py_ssize_t width) noexcept nogil:
        """Return the number of floats that `expect` needs for an image."""
        return (self.n_parts * height * grid_ld(width)
                + scratch_size(self.n_parts, height, width)
                + self._n_edges * (4 + <Py_ssize_t> sizeof(Spring) // 8) + 1)

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef Py_ssize_t height = self._shapes[2 * i], width = self._shapes[2 * i + 1]
        cdef Py_ssize_t n_edges = self._n_edges, edge, axis
        cdef Py_ssize_t end = height * width * self.ld
        cdef double* grids = at.memory
        cdef double* scratch = grids + self.n_parts * height * grid_ld(width)
        cdef double* moments = scratch + scratch_size(self.n_parts, height, width)
        cdef Spring* springs = <Spring*> (moments + 4 * n_edges)
        cdef double scale
        self._load_springs(at.others, 1.0 / mu, springs)
        self._load_grids(i, 1.0 / mu, at.theta, grids)
        value[0] = at.constant + mu * sum_product(
            self._tree, height, width, springs, grids, scratch, moments)
        memset(means, 0, (end + 4 * n_edges) * sizeof(double))
        # if all placements are forbidden, means are zero
        if value[0] == -INFINITY:
            return 0
        self._store_grids(i, grids, means)
        for edge in range(n_edges):
            for axis in range(2):
                scale = self._scales[2 * edge + axis]
                means[end + 4 * edge + axis] = moments[4 * edge + axis] / scale
                # quadratic terms are subtracted from the score
                means[end + 4 * edge + 2 + axis] = (
                    -moments[4 * edge + 2 + axis] / (scale * scale))
        return 0

    cdef void _load_springs(self, const double* others, double factor,
                            Spring* springs) noexcept nogil:
        """Write springs, with weights for displacements in positions, not in units."""
        cdef Py_ssize_t edge, axis
        cdef const double* weights
        cdef double scale
        for edge in range(self._n_edges):
            weights = others + 4 * edge
            for axis in range(2):
                scale = self._scales[2 * edge + axis]
                springs[edge].offset[axis] = self._offsets[2 * edge + axis]
                springs[edge].linear[axis] = factor * weights[axis] / scale
                springs[edge].quadratic[axis] = (
                    factor * weights[2 + axis] / (scale * scale))

    cdef void _load_grids(self, Py_ssize_t i, double factor, const double* table,
                          double* grids) noexcept nogil:
        """Write a grid for each part, from tables with a row for each position."""
        cdef Py_ssize_t height = self._shapes[2 * i], width = self._shapes[2 * i + 1]
        cdef Py_ssize_t ld = grid_ld(width), part, row, column
        for part in range(self.n_parts):
            for row in range(height):
                for column in range(width):
                    grids[column] = factor * table[
                        (row * width + column) * self.ld + part]
                for column in range(width, ld):
                    grids[column] = -INFINITY
                grids += ld

    cdef void _store_grids(self, Py_ssize_t i, const double* grids,
                           double* table) noexcept nogil:
        """Copy grids into a table: the inverse of `_load_grids`."""
        cdef Py_ssize_t height = self._shapes[2 * i], width = self._shapes[2 * i + 1]
        cdef Py_ssize_t part, row, column
        for part in range(self.n_parts):
            for row in range(height):
                for column in range(width):
                    table[(row * width + column) * self.ld + part] = grids[column]
                grids += grid_ld(width)
