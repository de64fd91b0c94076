"""Positions of parts and types of edges: the structure of bound models.

Score, labelings and tables: see `_parts.pyx`.
"""

import numpy as np

from sksstruct.inference.parts._parts import PartsTree
from sksstruct.inference.parts._topk import BestPlacements
from sksstruct.inference.trees._tree import Tree
from sksstruct.models.parts._parts import PartsKernel
from sksstruct.models.tables._table import block_ld


class Parts(PartsKernel):
    """Positions of parts, and types of edges if there are any.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As in `Structure`.
    n_parts : int
        Number of parts.
    shapes : ndarray of shape (n_examples, 2), intp
        Heights and widths.
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of parts.
    offsets : ndarray of shape (n_edges, 2) or (n_edges, n_types, 2)
        Mean displacements of edges, or of their types, for rows and for columns.
    scales : ndarray of shape (n_edges, 2)
        Units of displacements minus their means.
    type_features : bool
        Whether there is a second table, for types that depend on the image.
    units : ndarray of shape (n_examples,) or None
        Distances at which a part counts as lost; None for prediction.
    """

    # with smoothing by sums, training reaches a relative duality gap of 1 % in 64
    # passes; with smoothing by the 5 best labelings, the gap is far larger after 200
    # passes
    prefers_sums = True

    def __init__(
        self,
        sizes,
        y_true,
        max_keys,
        n_parts,
        shapes,
        edges,
        offsets,
        scales,
        type_features,
        units,
    ):
        # for `find` and `find_topk` in Python, and for estimators
        self.shapes, self.edges = shapes, edges
        self.offsets, self.scales = offsets, scales
        typed = offsets.ndim == 3
        n_types = offsets.shape[1] if typed else 1
        n_springs = len(edges) * n_types
        type_ld = block_ld(2 * n_springs) if type_features else 0
        self.set_tables(n_parts, block_ld(n_parts), type_ld, shapes, units)
        most_keys = n_springs * int((2 * shapes - 1).prod(axis=1).max())
        self.set_springs(
            Tree(n_parts, edges),
            edges,
            typed,
            offsets.reshape(n_springs, 2),
            np.repeat(scales, n_types, axis=0),
            most_keys,
        )
        # shapes determine the meaning of positions: images with equally many positions
        # may differ in width
        self.meaning.extend([shapes, edges])
        if typed:
            # types are identified by their offsets
            self.meaning.append(offsets)

    @property
    def oracles(self):
        return ("max", "topk") if self.typed else ("max", "topk", "exp")

    @property
    def oracle_note(self):
        if not self.typed:
            return None
        return (
            "parts with n_types > 1 have no sums: these would have to go through the "
            "types of all edges; use SmoothedHinge(smoothing='l2')"
        )

    def springs(self, others):
        """Return views of the linear and quadratic weights, and of the bias or None.

        Linear and quadratic weights have shape (n_edges, 2), or (n_edges, n_types, 2)
        with types.
        """
        shape = self.offsets.shape[: self.offsets.ndim - 1]
        table = others.reshape(*shape, self.others_of_key)
        bias = table[..., 4] if self.typed else None
        return table[..., :2], table[..., 2:4], bias

    def _problem(self, i, theta, others):
        """Return scores of positions, (n_parts, height, width), and the springs."""
        height, width = self.shapes[i].tolist()
        end = height * width * self.ld
        table = theta[:end].reshape(height, width, self.ld)
        # a grid for each part, from a table with a row for each position
        unary = np.ascontiguousarray(table[:, :, : self.n_parts].transpose(2, 0, 1))
        linear, quadratic, bias = self.springs(others)
        scales, ends = self.scales, None
        if self.typed:
            scales, bias = scales[:, None], np.ascontiguousarray(bias)
        if self.type_ld:
            table = theta[end:].reshape(height * width, self.type_ld)
            table = table[:, : 2 * self.n_springs]
            ends = np.ascontiguousarray(table.T).reshape(*bias.shape, 2, height, width)
        # weights for displacements in positions instead of units
        return unary, (
            self.edges,
            self.offsets,
            quadratic / scales**2,
            linear / scales,
            bias,
            ends,
        )

    def find(self, i, theta, others):
        unary, springs = self._problem(i, theta, others)
        positions, types, _ = PartsTree(unary, *springs).max_product()
        cells = positions[:, 0] * unary.shape[2] + positions[:, 1]
        return np.concatenate([cells, types]).astype(np.int32)

    def find_topk(self, i, theta, others, k):
        unary, springs = self._problem(i, theta, others)
        return BestPlacements(unary, *springs).find(k, self.typed)

    def find_placements(self, i, theta, others, k):
        """Return the k best placements, each with its best types, as labelings."""
        unary, springs = self._problem(i, theta, others)
        placements = BestPlacements(unary, *springs).find(k)
        types = [
            self._best_types(cells, unary.shape[2], *springs[1:])
            for cells in placements
        ]
        return np.concatenate(
            [placements, np.reshape(types, (len(placements), -1))], axis=1
        ).astype(np.int32)

    def _best_types(self, cells, width, offsets, quadratic, linear, bias, ends):
        """Return the best type of each edge at given positions; the first of ties."""
        places = np.stack(np.divmod(cells, width), axis=1)
        u, v = self.edges.T
        moved = (places[v] - places[u])[:, None] - offsets
        scores = bias + (linear * moved - quadratic * moved**2).sum(axis=2)
        if ends is not None:
            edge, (rows, columns) = np.arange(len(u)), places.T
            scores += ends[edge, :, 0, rows[u], columns[u]]
            scores += ends[edge, :, 1, rows[v], columns[v]]
        return scores.argmax(axis=1)
