"""Scores of any form in place of rows of features times a block of weights.

`score.py` has the interface of score functions, `torch_score.py` and `jax_score.py` use
modules of PyTorch and functions of JAX, and `scored.py` is the loss of a bound model
with such scores.
"""
