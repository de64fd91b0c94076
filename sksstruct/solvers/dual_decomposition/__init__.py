"""Training through factorwise oracles: dual decomposition of the training problem.

An augmented Lagrangian over the distributions of variables and factors is minimized
block by block, and its multipliers ascend (GDMM). In reading order:

* `gdmm.py`, `bca.py` and `soft_bcfw.py` are the solvers; `restart.py` exports the state
  of GDMM.
* `_state.pyx` states the notation and has the blocks of variables and pairs,
  `_clique_state.pyx` has blocks of larger factors, `_away_state.pyx` away steps; active
  outcomes and their multipliers are in `_active_sets.pyx` and `_residuals.pxd`.
* `binary_state.py`, `_binary_state.pyx`, `_binary_blocks.pyx` and `_pair_step.pyx` are
  the blocks for binary labels; `label_ascent.py`, `_label_ascent.pyx` and
  `_label_steps.pyx` ascend the dual of label sets without multipliers.
* `_feasible.pyx`, `_feasible_joint.pyx` and `feasible_joint.py` make the distributions
  consistent, for a dual value.

Data: potentials and messages of a factor -> its oracle finds one more outcome -> the
block step changes q, the weights of the model and the marginals -> the
multipliers are updated with the residuals M q_f - q_v.
"""
