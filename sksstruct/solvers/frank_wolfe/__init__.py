"""Frank-Wolfe methods on the dual, and the regularization path."""
