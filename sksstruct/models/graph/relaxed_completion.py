"""Completion of unknown labels in graphs with cycles, by MAP solvers."""

import numpy as np

from sksstruct.models.graph.labeled import BoundRelaxedGraph
from sksstruct.models.graph.partial import is_certain, known_parts, observed_graphs
from sksstruct.models.tables.completion import Partial, TableCompletion


class RelaxedCompletion(TableCompletion):
    """Completes the labels of a `RelaxedGraphModel` by its predictions.

    Parameters
    ----------
    spec : RelaxedGraphModel
        The model, which has seen its training data.
    X : list of Graph
        Checked graphs.
    y : list of ndarray or Partial
        Numbers of the labels of each graph, or constraints on them.
    weight : ndarray of shape (n_graphs,)
        The p_i.

    Attributes
    ----------
    model : BoundRelaxedGraph
        The model bound to arbitrary labels that satisfy the constraints.
    """

    def __init__(self, spec, X, y, weight):
        self._spec, self._X = spec, observed_graphs(X, y)
        self._y, self._weight = y, weight
        for each in y:
            if isinstance(each, Partial) and not is_certain(each).any():
                raise ValueError(
                    f"y[{each.number}] has no node with a single label: "
                    "RelaxedGraphModel needs one in every graph"
                )
        first = [
            each.allowed.argmax(axis=1) if isinstance(each, Partial) else each
            for each in y
        ]
        self._starts = np.concatenate([[0], np.cumsum(list(map(len, first)))])
        self.model = self._bind(np.concatenate(first))
        super().__init__(self.model, None, self._bind, self._bind_first)

    def _bound(self, X, rows, weight):
        answers = map(self._spec._answer, X, rows)
        return BoundRelaxedGraph(self._spec, X, list(answers), weight)

    def _bind(self, labels):
        rows = np.split(labels, self._starts[1:-1])
        return self._bound(self._X, rows, self._weight)

    def _bind_first(self):
        return self._bound(*known_parts(self._X, self._y, self._weight))

    def complete(self, weights, n_jobs=None, layout=None):
        """Consecutive labelings, completed by prediction at the weights."""
        n_labels, rows = len(self._spec.classes_), []
        for x, row in zip(self._X, self._y, strict=True):
            if isinstance(row, Partial):
                allowed = row.allowed[:, :n_labels]
                row = self._spec._best(x, weights, allowed)
            rows.append(row)
        return np.concatenate(rows).astype(np.int32)
