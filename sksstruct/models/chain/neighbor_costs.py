"""Costs of pairs of neighboring labels, which chains add to tables of positions."""

import numpy as np

from sksstruct.models.chain._factors import position_costs
from sksstruct.utils._layout import aligned_zeros


class NeighborCosts:
    """The cost of every pair of labels, for each group of observed pairs.

    Parameters
    ----------
    groups : ndarray of shape (n_labels, n_labels), int
        The group of each observed pair.
    tables : ndarray of shape (n_groups, n_labels, n_labels)
        Costs of all pairs in each group, before the division by the length.
    """

    def __init__(self, groups, tables):
        self.groups, self.tables = groups, tables

    @classmethod
    def of(cls, loss, classes):
        """Return the costs of a task loss, or raise an error if they are not valid.

        Parameters
        ----------
        loss : NeighborLoss
            The loss.
        classes : ndarray of shape (n_labels,)
            The labels.
        """
        groups, tables = map(np.asarray, loss.pair_costs(classes))
        tables, n, who = tables.astype(np.float64), len(classes), type(loss).__name__
        if groups.shape != (n, n) or tables.ndim != 3 or tables.shape[1:] != (n, n):
            raise ValueError(
                f"{who}.pair_costs must return groups of shape ({n}, {n}) and tables "
                f"of shape (n_groups, {n}, {n}), got {groups.shape} and {tables.shape}"
            )
        if not ((groups >= 0) & (groups < len(tables))).all():
            raise ValueError(
                f"{who}.pair_costs: groups must be from 0 to {len(tables) - 1}"
            )
        if not np.isfinite(tables).all() or (tables < 0.0).any():
            raise ValueError(f"{who}.pair_costs must be finite and not negative")
        observed = tables[groups, np.arange(n)[:, None], np.arange(n)]
        if observed.any():
            a, b = np.argwhere(observed)[0]
            pair = tuple(classes[[a, b]].tolist())
            raise ValueError(f"{who}.pair_costs: the observed pair {pair} must cost 0")
        return cls(groups.astype(np.int32), tables)

    def padded(self, ld):
        """Return the tables of costs, with rows padded to ld entries."""
        n_groups, n_labels, _ = self.tables.shape
        out = aligned_zeros(self.tables.size // n_labels * ld)
        out = out.reshape(n_groups, n_labels, ld)
        out[:, :, :n_labels] = self.tables
        return out

    def of_positions(self, labels, sizes, starts, known, loss_length):
        """Return the group of the observed pair that ends at each position, and a
        factor of its costs.

        The factor is 0 where one of the labels was not observed. No pair ends at the
        first position of a sequence, whose group and factor are not read.
        """
        share = position_costs(
            labels, sizes, starts, len(self.groups), None, known, loss_length
        )
        before = np.concatenate([labels[:1], labels[:-1]])
        if known is not None:
            share[1:] *= known[:-1]
        return np.ascontiguousarray(self.groups[before, labels]), share
