"""Belief propagation: marginals and the logarithm of the partition function.

Reading order: `belief_propagation` (the solver), `result`, `beliefs` (arrays of the
kernels), `_beliefs` (messages, marginals, log Z), `_factor_sums` (sums over the joint
states of one factor), `_forests` (spanning forests, for the tree-reweighted bound).

Data flow: scores, messages of factors, beliefs of variables, and from both the
marginals, the Bethe free energy, and the sums over forests that bound log Z.
"""
