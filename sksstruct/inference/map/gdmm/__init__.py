"""Greedy direction methods of multipliers."""
