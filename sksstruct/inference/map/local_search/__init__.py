"""Moves that improve a labeling."""
