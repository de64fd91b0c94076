"""Block-coordinate ascent on the dual of the relaxation."""
