"""Minimum cuts, and problems that reduce to them."""
