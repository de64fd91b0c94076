"""What parts of the data tell of the whole, so that nobody has to see all of it."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Facts:
    """What models learn from data before they are bound to them.

    Parameters
    ----------
    sizes : dict of int to int
        Number of examples of positive weight, by number of the part.
    n_features : int
        Number of features.
    feature_names : ndarray or None
        Their names.
    counts : dict
        Total weight of each label.
    total : float
        Total weight of the examples.
    length : float
        Total weight of the positions.
    """

    sizes: dict
    n_features: int
    feature_names: np.ndarray | None = None
    counts: dict = field(default_factory=dict)
    total: float = 0.0
    length: float = 0.0

    @property
    def n_examples(self):
        """Number of examples of positive weight."""
        return sum(self.sizes.values())

    def merge(self, other):
        """The facts of both; sums depend on the order of the merges.

        Parameters
        ----------
        other : Facts
            Of later parts.

        Returns
        -------
        facts : Facts
        """
        if self.n_features != other.n_features:
            raise ValueError(
                f"part {min(other.sizes)} of X has {other.n_features} features, but "
                f"part {min(self.sizes)} has {self.n_features}"
            )
        names, others = self.feature_names, other.feature_names
        if (names is None) != (others is None) or (
            names is not None and not np.array_equal(names, others)
        ):
            raise ValueError(
                f"part {min(other.sizes)} of X has other feature names than part "
                f"{min(self.sizes)}"
            )
        counts = dict(self.counts)
        for label, count in other.counts.items():
            counts[label] = counts.get(label, 0.0) + count
        return Facts(
            {**self.sizes, **other.sizes},
            self.n_features,
            names,
            counts,
            self.total + other.total,
            self.length + other.length,
        )
