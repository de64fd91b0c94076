"""Graphs of labeled nodes, whose edges score pairs of labels.

`graph.py` is the model for forests and for two labels, `relaxed.py` the one for all
graphs. Inputs are checked (`inputs.py`, images: `grid.py`) and labels encoded
(`partial.py`: some are unknown), and the structure (`structure.py` with `_graph.pyx`)
decodes tables of scores. For dual decomposition, `labeled.py` concatenates graphs,
whose factors are `factors.py` with `_factors.pyx`; `relaxation.py` bounds their
objective. `relaxed_completion.py` completes labels of graphs with cycles.
"""

from sksstruct.models.graph.graph import GraphModel

__all__ = ["GraphModel"]
