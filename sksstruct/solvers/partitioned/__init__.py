"""Training over blocks of the data, on threads or on machines (CoCoA+).

* `partitioned.py` is the solver and its run; `rounds.py` the driver: weights, rounds,
  certificates, recovery; `scaling.py` has sigma', `average.py` the average.
* `blocks.py` has the blocks with their dual variables; `gradients.py` does the same for
  L-BFGS; `executors.py` calls blocks on threads; `checkpoint.py` stores states.
* `changes.py` and `lines.py`, with `_lines.pyx`, are the sparse changes of weights.

Data flow of a round: weights v -> copy of v in each block -> visits -> sparse change of
the copy -> `TreeSum` -> v.
"""
