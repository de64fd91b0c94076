"""Factor graphs: variables, and tables that score the states of a few of them."""

from sksstruct.factor_graphs._builder import FactorGraphBuilder
from sksstruct.factor_graphs._graph import FactorGraph
from sksstruct.factor_graphs._tables import (
    DenseTable,
    Logic,
    Potts,
    Table,
    TruncatedLinear,
    TruncatedQuadratic,
)

__all__ = [
    "DenseTable",
    "FactorGraph",
    "FactorGraphBuilder",
    "Logic",
    "Potts",
    "Table",
    "TruncatedLinear",
    "TruncatedQuadratic",
]
