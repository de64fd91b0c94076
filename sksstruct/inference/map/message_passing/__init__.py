"""Block-coordinate descent on the dual of the relaxation."""
