"""Chains of first and second order: sequences of labels.

`chain.py` is the model that `ChainCRF` trains, from data (`data.py`), constraints
(`constraints.py`) and the pairs and triples with weights (`pair_support.py`). It binds
`_chain.pyx` (scratch: `_workspace.pyx`; transitions of single positions:
`_pair_features.pyx`), for many labels `_sparse_training.pyx`. Features and weights make
potentials, an oracle finds a labeling or its means (`_means.pyx`), and a change of mean
parameters is scattered to the weights. Further files: `_smooth.pyx`,
`_entropy_dual.pyx` and `_factors.pyx` (losses, duals, factors), `incomplete.py`
(unknown labels), and `fitted.py`, which predicts with `_given.pyx`, `_sparse.pyx` and
`_posterior.pyx`.
"""
