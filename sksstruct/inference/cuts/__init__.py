"""Minimum cuts, and what reduces to them."""
