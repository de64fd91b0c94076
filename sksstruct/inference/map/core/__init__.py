"""Parts that solvers of MAP problems share."""
