"""Frank-Wolfe methods on the dual, and the regularization path.

* `batch.py` moves all examples at once.
* `bcfw.py` is the block-coordinate solver; `passes.py` chooses the examples of a pass,
  `_bcfw.pyx` visits them, `_directions.pxd` has the steps within a block, `_blocks.pyx`
  the dual variables, `_sampling.pyx` the draws by gap; `exported.py` checks states.
* `path.py` follows the path over alpha with these kernels.

Data: example -> oracle -> labeling, appended to the block of the example -> step
changes the labelings' weights -> the change of mean parameters is added to w.
"""
