"""Parts on a grid, held together by springs: pose estimation."""

import itertools
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from sksstruct.inference._checks import check_edges
from sksstruct.inference.trees._tree import Tree
from sksstruct.models._compiled import CompiledModel, check_features
from sksstruct.models.parts.placements import Parts
from sksstruct.models.tables._table import BoundTable
from sksstruct.utils._param_validation import Array, Count, Interval


@dataclass(eq=False, repr=False)
class PartsModel(CompiledModel):
    """Positions of parts in an image, with springs along the edges of a tree.

    An input is an array of shape (height, width, n_features): features of every
    position. An output is an integer array of shape (n_parts, 2): row and column of
    each part. A spring scores the displacement between its two ends by a linear and a
    quadratic function of rows and of columns. Displacements are taken minus their mean
    over the training data, in units of half the image size. Quadratic costs are
    constrained to be nonnegative, so that distance transforms find the best positions
    [1]_. Sums over all placements, as ``loss="log"`` needs them, are exact log-sum
    transforms; see `sksstruct.inference.parts_sum_product`.

    With `n_types`, every edge has one of several types of springs, for example for a
    raised and a lowered arm. Each type has its own displacements, weights and score,
    and the score can depend on the image at both ends. Types are not part of the
    outputs. In training, they are clusters of the observed displacements. In
    prediction, they are found together with the positions.

    Parameters
    ----------
    edges : array-like of shape (n_edges, 2), default=()
        Pairs of parts, without a cycle.
    unit : float or tuple of two int, default=5.0
        The loss is the mean over the parts of ``min(1, distance^2 / unit^2)``. The unit
        is a number. If you pass a pair of parts, the unit of each image is the observed
        distance of these parts.
    fit_intercept : bool, default=True
        Whether parts have a bias.
    n_types : int, default=1
        Number of types of each edge.
    type_features : bool, default=True
        Whether the scores of types depend on the features at the positions of the two
        parts, with weights for each; not with a single type.

    Attributes
    ----------
    edges_ : ndarray of shape (n_edges, 2)
        Pairs of parts.
    offsets_ : ndarray of shape (n_edges, 2) or (n_edges, n_types, 2)
        Mean displacement of the second part from the first; for each type the center of
        its cluster.
    scales_ : ndarray of shape (n_edges, 2)
        Units of deviations from the mean: half the mean height and width of images.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` (n_parts, n_features),
    ``intercept_`` (n_parts,), ``linear_`` and ``quadratic_`` (n_edges, 2). With
    ``n_types > 1`` the last two are of shape (n_edges, n_types, 2), and there are
    ``type_intercept_`` (n_edges, n_types) and, with `type_features`, ``type_coef_``
    (n_edges, n_types, 2, n_features). `decode` and `labelings` then return pairs
    (positions, types); `predict` and `predict_topk` of the classifier return the best
    positions, each with its best types left out.

    References
    ----------
    .. [1] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016, Section I.4, whose loss is min(1, .).

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import PartsModel
    >>> X, y = np.zeros((1, 4, 5, 2)), [[[1, 1], [2, 3]]]
    >>> X[0, 1, 1, 0] = X[0, 2, 3, 1] = 1.0
    >>> model = PartsModel(edges=[(0, 1)], unit=2.0)
    >>> classifier = SSVMClassifier(model, alpha=0.1, random_state=0).fit(X, y)
    >>> classifier.predict(X)[0].tolist()
    [[1, 1], [2, 3]]
    """

    edges: Array = ()
    _: KW_ONLY
    unit: float | tuple[int, int] = 5.0
    fit_intercept: bool = True
    n_types: Count = 1
    type_features: bool = True

    _parameter_constraints = {
        "unit": [Interval(Real, 1e-6, None, closed="left"), tuple, list]
    }

    @property
    def _from_parts(self):
        # clusters need the displacements of all data
        means = {"offsets_": "mean", "scales_": "mean"}
        return means if self.n_types == 1 else None

    def bounds(self) -> dict | None:
        return {"quadratic": (0.0, None)}

    def _input(self, x, name):
        axes = "(height, width, n_features)"
        x = check_features(x, name, 3, self.n_features_, axes)
        if not x.shape[0] or not x.shape[1]:
            raise ValueError(f"{name} has no positions")
        return x

    def _learn(self, X, y, weight):
        self._learn_size((x.shape[2] for x in X), "positions")
        self.n_parts_ = len(y[0]) if np.iterable(y[0]) else 1
        if not self.n_parts_:
            raise ValueError("y[0] has no parts")
        if isinstance(self.unit, (tuple, list)) and not all(
            0 <= p < self.n_parts_ for p in self.unit
        ):
            raise ValueError(f"unit names parts {self.unit}, y has {self.n_parts_}")
        self.edges_ = check_edges(self.edges, self.n_parts_)
        Tree(self.n_parts_, self.edges_)
        y = [
            self._positions(a, b, f"y[{i}]")
            for i, (a, b) in enumerate(zip(X, y, strict=True))
        ]
        moves = np.array([z[self.edges_[:, 1]] - z[self.edges_[:, 0]] for z in y])
        if self.n_types == 1:
            self.offsets_ = np.average(moves, axis=0, weights=weight)
        else:
            self.offsets_ = self._clusters(moves, weight)
        size = np.average([x.shape[:2] for x in X], axis=0, weights=weight)
        # These units keep features of springs at about 1. In units of their standard
        # deviation, distant parts would have features far larger than all other
        # features, and training would take ten times as long.
        self.scales_ = np.broadcast_to(size / 2.0, moves.shape[1:]).copy()
        return self._outputs(X, y)

    def _clusters(self, moves, weight):
        """Centers of the displacements of each edge, ordered by rows and columns."""
        out = np.empty((len(self.edges_), self.n_types, 2))
        for k, edge in enumerate(self.edges_.tolist()):
            n_seen = len(np.unique(moves[:, k], axis=0))
            if n_seen < self.n_types:
                raise ValueError(
                    f"n_types={self.n_types}: the training data has {n_seen} different "
                    f"displacements of the edge {tuple(edge)}"
                )
            # imported here, as scikit-learn's clusters take longer to import than all
            # models
            from sklearn.cluster import KMeans

            means = KMeans(self.n_types, n_init=10, random_state=0)
            means.fit(moves[:, k].astype(np.float64), sample_weight=weight)
            # sorted, as the numbers of clusters are arbitrary
            order = np.lexsort(means.cluster_centers_.T[::-1])
            out[k] = means.cluster_centers_[order]
        return out

    def _output(self, x, y, name):
        """Checked positions; with several types the pair (positions, types)."""
        if self.n_types == 1:
            return self._positions(x, y, name)
        if not (isinstance(y, tuple) and len(y) == 2 and np.ndim(y[0]) == 2):
            z = self._positions(x, y, name)
            away = z[self.edges_[:, 1]] - z[self.edges_[:, 0]]
            squared = ((away[:, None] - self.offsets_) ** 2).sum(axis=2)
            return z, squared.argmin(axis=1).astype(np.int32)
        z, types = self._positions(x, y[0], name), np.asarray(y[1])
        if (
            types.dtype.kind not in "iu"
            or types.shape != (len(self.edges_),)
            or not ((types >= 0) & (types < self.n_types)).all()
        ):
            raise ValueError(
                f"{name} must have a type below {self.n_types} for each of the "
                f"{len(self.edges_)} edges, got {y[1]!r:.80}"
            )
        return z, types.astype(np.int32)

    def _positions(self, x, y, name):
        try:
            y = np.asarray(y)
        except ValueError:
            y = np.zeros(0)
        if y.dtype.kind not in "iu" or y.shape != (self.n_parts_, 2):
            raise ValueError(
                f"{name} must be integers of shape {(self.n_parts_, 2)}, row and "
                f"column of each part, got {y.dtype} of shape {y.shape}"
            )
        if (y < 0).any() or (x is not None and (y >= x.shape[:2]).any()):
            raise ValueError(f"{name} has a part outside the image")
        return y.astype(np.intp)

    def _unit(self, y, name="y"):
        if not isinstance(self.unit, (tuple, list)):
            return float(self.unit)
        p, q = self.unit
        distance = float(np.linalg.norm(y[p] - y[q]))
        if not distance:
            raise ValueError(
                f"{name} must have the two parts of unit={self.unit!r} at different "
                f"positions, got both at {y[p].tolist()}"
            )
        return distance

    def check(self) -> None:
        super().check()
        if isinstance(self.unit, (tuple, list)) and (
            len(self.unit) != 2 or not all(isinstance(p, Integral) for p in self.unit)
        ):
            raise ValueError(f"unit must be a number or two parts, got {self.unit!r}")

    def _labeling(self, x, y):
        z, types = y if self.n_types > 1 else (y, [])
        return np.concatenate([z[:, 0] * x.shape[1] + z[:, 1], types]).astype(np.int32)

    def _placed(self, output):
        """The positions of an output, without types."""
        return output[0] if self.n_types > 1 else output

    def _shown(self, x, labeling):
        cells, types = np.split(labeling, [self.n_parts_])
        z = np.column_stack(np.divmod(cells, x.shape[1])).astype(np.intp)
        return (z, types) if self.n_types > 1 else z

    def _predict(self, X, weights, n_jobs=None):
        outputs, scores = super()._predict(X, weights, n_jobs)
        # without types, as in the outputs given to `fit`
        return [self._placed(z) for z in outputs], scores

    def _predict_topk(self, X, weights, k):
        outputs, scores = super()._predict_topk(X, weights, k)
        return [[self._placed(z) for z in some] for some in outputs], scores

    def _topk(self, x, weights, k):
        if self.n_types == 1:
            return super()._topk(x, weights, k)
        # different labelings may be one placement with different types
        model, weights = self._ready([x], weights)
        workspace = model.workspace(weights)
        model.labeling(workspace, 0)  # writes the scores to workspace.theta
        others = weights[len(weights) - model.n_other :]
        found = model.structure.find_placements(0, workspace.theta, others, k)
        scores = [model.joint_feature(workspace, 0, y) @ weights for y in found]
        return [self._shown(x, y) for y in found], np.array(scores)

    def decode(self, x: Any, w: np.ndarray) -> Any:
        w = np.asarray(w, dtype=np.float64)
        return super()._predict([self._input(x, "x")], w)[0][0]

    @property
    def _n_columns(self):
        return self.n_parts_

    def _bound(self, X, y_true, example_weights, rows=None):
        shapes = np.array([x.shape[:2] for x in X], dtype=np.intp)
        labels = units = None
        if y_true is not None:
            labels = np.concatenate(
                [self._labeling(x, y) for x, y in zip(X, y_true, strict=True)]
            )
            placed = map(self._placed, y_true)
            units = [self._unit(z, f"y[{i}]") for i, z in enumerate(placed)]
            units = np.array(units)
        typed, n_edges = self.n_types > 1, len(self.edges_)
        n_springs, most_keys = n_edges * self.n_types, self.n_parts_ + n_edges
        offsets, features = self._offsets(X), None
        has_type_features = typed and self.type_features and n_edges
        if rows is None or has_type_features:
            features = self._rows(X)
        blocks = [(rows, offsets, self.n_parts_, False)]
        if rows is None:
            blocks = [(features, offsets, self.n_parts_, self.fit_intercept)]
        if has_type_features:
            blocks.append((features, offsets, 2 * n_springs, False))
            most_keys += 2 * n_edges
        # a labeling has a position for each part and, with types, a type for each edge
        structure = Parts(
            np.full(len(X), self.n_parts_ + typed * n_edges),
            labels,
            most_keys,
            self.n_parts_,
            shapes,
            self.edges_,
            self.offsets_,
            self.scales_,
            type_features=bool(has_type_features),
            units=units,
        )
        names = partial(_named, structure)
        model = BoundTable(blocks, structure, example_weights, names)
        model.oracle_bounds = self.bounds()
        return model

    def _marginals_of(self, structure, i, means):
        """Probability of each position of each part, (n_parts, height, width)."""
        height, width = structure.shapes[i]
        table = means[: height * width * structure.ld].reshape(height, width, -1)
        return np.ascontiguousarray(table.transpose(2, 0, 1)[: structure.n_parts])

    # ---- methods of all models ----

    def loss(self, y: Any, y_hat: Any) -> float:
        y = self._placed(self._output(None, y, "y"))
        y_hat = self._placed(self._output(None, y_hat, "y_hat"))
        squared = ((y - y_hat) ** 2).sum(axis=1) / self._unit(y) ** 2
        return float(np.minimum(squared, 1.0).mean())

    def labelings(self, x: Any) -> Iterable:
        x = self._input(x, "x")
        states = [range(x.shape[0] * x.shape[1])] * self.n_parts_
        if self.n_types > 1:
            states += [range(self.n_types)] * len(self.edges_)
        for labeling in itertools.product(*states):
            yield self._shown(x, np.array(labeling, dtype=np.int32))

    def _smallest(self):
        return np.zeros((1, 1, self.n_features_))


def _named(structure, blocks, others):
    """Named weights of parts, springs and types."""
    coef, intercept = blocks[0]
    linear, quadratic, bias = structure.springs(others)
    views = {
        "coef": coef.T,
        "intercept": intercept,
        "linear": linear,
        "quadratic": quadratic,
    }
    if bias is not None:
        views["type_intercept"] = bias
    if structure.type_ld:
        coef = blocks[1][0].T
        views["type_coef"] = coef.reshape(*bias.shape, 2, coef.shape[1])
    return views
