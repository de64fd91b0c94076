"""Dependency trees of sentences, which score their arcs."""
