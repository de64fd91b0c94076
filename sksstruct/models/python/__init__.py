"""Models that are written in Python."""
