"""Belief propagation: marginals and the logarithm of the partition function."""
