"""Common parts of all solvers: parameters, the loop, results, names."""
