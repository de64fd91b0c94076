"""Constraints as clauses, and a search that learns from conflicts."""
