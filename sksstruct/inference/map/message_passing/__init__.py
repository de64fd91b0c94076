"""Message passing: block-coordinate descent on the dual of the LP relaxation.

Reading order: `trws` and `mplp` (the solvers), `_passing` (their common loop of sweeps
and searches), `sweeps` (arrays of the kernels, reparametrization), `_messages` (base of
the kernels), `_trws` and `_mplp` (sweeps), `_higher` (max-marginals of factors of three
or more variables).

Data flow: scores, messages to variables, beliefs (scores plus messages), and from them
the bound, a labeling, and the reparametrization that other solvers start from.
"""
