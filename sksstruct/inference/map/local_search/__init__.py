"""Local search: moves that improve a labeling, without a bound.

Reading order: `search` (set-up) and `_search` (annealing with kicks and moves) call two
exact inner steps. `_forest` finds the best states of a random forest by max-product;
`_elimination` finds the best states of a window (`_window`) by bucket elimination, in
an order (`_order`) and with tables (`_buckets`) of its own. `cells`, `_cells` and
`_crossover` combine labelings, `weighted`, `_weighted` and `_violations` repair
violated constraints, and `_rounds` alternates all of these and branch and bound.

Data flow: a labeling, a window of variables, the scores of their states given all other
variables, the best states, and the labeling again if its score is accepted.
"""
