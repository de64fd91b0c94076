"""Factor graphs: variables, and tables that score the states of a few variables.

`_tables.py` defines the tables, `_graph.py` the graph, with checks of its arguments in
`_checks.py`, and `_builder.py` a builder that adds variables and factors one by one.
The solvers of `sksstruct.inference.map` label the graphs.
"""

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
