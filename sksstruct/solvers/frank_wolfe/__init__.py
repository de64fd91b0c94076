"""Frank-Wolfe methods on the dual, and the regularisation path."""
