"""Facts that parts of the data contribute, so that no process has to read all data."""

from dataclasses import dataclass, field

import numpy as np

from sksstruct.utils._names import FeatureNames
from sksstruct.utils.validation import check_weight


@dataclass
class Facts:
    """Facts about data that models learn before they are bound.

    Parameters
    ----------
    sizes : dict of int to int
        Number of examples of positive weight, by number of the part.
    n_features : int
        Number of features.
    feature_names : FeatureNames or None
        Names of the features.
    counts : dict
        Total weight of each label.
    total : float
        Total weight of the examples.
    length : float
        Total weight of the positions.
    learned : dict of str to tuple
        Values that a model has learned from the part, each as a pair of a rule of
        merging and the value. "sum" adds, "max" takes the larger number, "labels" joins
        lists of labels, "moments" merges `ColumnMoments`, "equal" must be the same in
        all parts. Numbers may be values of dicts.
    """

    sizes: dict
    n_features: int | None
    feature_names: FeatureNames | None = None
    counts: dict = field(default_factory=dict)
    total: float = 0.0
    length: float = 0.0
    learned: dict = field(default_factory=dict)

    @property
    def n_examples(self):
        """Number of examples of positive weight."""
        return sum(self.sizes.values())

    def merge(self, other):
        """The facts about both parts of the data, merged.

        The rounding of sums depends on the order of the merges.

        Parameters
        ----------
        other : Facts
            Facts of later parts.

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
            names is not None and names != others
        ):
            raise ValueError(
                f"part {min(other.sizes)} of X has other feature names than part "
                f"{min(self.sizes)}"
            )
        learned = {
            name: (rule, self._merged(name, rule, other))
            for name, (rule, _) in self.learned.items()
        }
        return Facts(
            {**self.sizes, **other.sizes},
            self.n_features,
            names,
            added(self.counts, other.counts),
            self.total + other.total,
            self.length + other.length,
            learned,
        )

    def _merged(self, name, rule, other):
        """The merged value of a learned attribute."""
        one, two = self.learned[name][1], other.learned.get(name, (rule, None))[1]
        if rule == "sum":
            return added(one, two) if isinstance(one, dict) else one + two
        if rule == "moments":
            return one.merge(two)
        if rule == "max" and isinstance(one, dict):
            return {k: max(one.get(k, 0), two.get(k, 0)) for k in {**one, **two}}
        if rule == "max":
            return max(one, two)
        if rule == "labels" and (one is None) == (two is None):
            return None if one is None else [*one, *(k for k in two if k not in one)]
        if rule == "equal" and same(one, two):
            return one
        raise ValueError(
            f"{name} is {one!r:.60} in part {min(self.sizes)} of the data, and "
            f"{two!r:.60} in part {min(other.sizes)}: what a model learns must not "
            "depend on the part; make it a parameter of the model"
        )


def added(one, two):
    """A dict with the sums of the values of two dicts."""
    out = dict(one)
    for key, value in two.items():
        out[key] = out.get(key, 0.0) + value
    return out


def same(one, two):
    """Whether two learned values are equal, arrays entry by entry."""
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return np.array_equal(one, two)
    return type(one) is type(two) and one == two


def part_weight(sample_weight, n_examples):
    """Weights of a part's examples as given; numbers of examples of positive weight."""
    weight = check_weight(sample_weight, n_examples)
    return weight, np.flatnonzero(weight)
