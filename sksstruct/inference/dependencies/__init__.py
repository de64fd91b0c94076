"""Dependency trees, whose scores are sums over arcs."""
