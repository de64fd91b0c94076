"""Graphs of labeled nodes."""

from sksstruct.models.graph.graph import GraphModel

__all__ = ["GraphModel"]
