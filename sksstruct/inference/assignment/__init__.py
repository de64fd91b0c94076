"""Bipartite matchings."""
