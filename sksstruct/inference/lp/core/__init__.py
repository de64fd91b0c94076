"""What solvers of MAP problems share."""
