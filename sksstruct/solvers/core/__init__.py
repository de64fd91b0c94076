"""What all solvers share: parameters, the loop, results, names."""
