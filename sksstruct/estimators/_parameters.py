"""Descriptions of the parameters and attributes that trained estimators share."""

from typing import Annotated

from sksstruct.losses import LossName, Surrogate
from sksstruct.solvers.core.base import Solver

# `object` lets any value pass here: the registry of solvers raises a better error.
AnySolver = Annotated[str | Solver, object]
AnyLoss = LossName | Surrogate

# Description of alpha="auto" where X is one matrix; the placeholder is the formula.
AUTO_ROWS = """
"auto" is {}, where n is the number, or total weight, of the samples, and m the sum of
the variances of the columns of X. A column whose range is more than ten times the
median range counts as if it had the median range. The feature of a bias that is
regularized is then ``sqrt(0.1 * m)``, and columns with few zeros are centered in
training: an offset or a factor of X changes no prediction.
"""
# Texts for `sksstruct.utils._doc.fill_doc`.
TEXTS = {
    "verbose": """
verbose : int, default=0
    Print a line whenever the duality gap is computed.
""",
    "max_seconds": """
max_seconds : float, default=None
    Time limit in seconds, counted from when the data have been read. Training stops
    within a pass, in time for a last computation of the duality gap. If the limit
    leaves no time for this computation, `objective_` and `dual_gap_` are inf. `n_iter_`
    counts whole passes.
""",
    "features_seen": """
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of shape (n_features,)
    Names of the features, if X has feature names.
""",
    "solver_": """
solver_ : solver object
    The solver that was used.
""",
    "history_": """
history_ : dict of ndarray
    Columns ``pass``, ``oracle_calls``, ``seconds``, ``primal``, ``dual``, ``gap``; a
    row for each computation of the gap.
""",
    "outcome": """
Raises
------
ValueError, TypeError
    If a parameter or the data are not valid. The estimator is left unchanged.
KeyboardInterrupt
    If the user interrupts training. The attributes are set from the training so far.

Warns
-----
ConvergenceWarning
    If training does not reach the tolerance in `max_iter` passes, or ends by
    `max_seconds` with a gap of more than a quarter of the objective. The warning has
    advice for these data.
""",
    "matrix": """
X : {array-like, sparse matrix} of shape (n_samples, n_features)
    Features.
""",
    "inputs": """
X : {array-like, sparse matrix} of shape (n_samples, n_features) or list
    Inputs, as the model takes them.
""",
    "sequences": """
X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
    Features.
""",
    "constraints": """
known, excluded, forbidden_transitions : optional
    Constraints; see `predict`.
""",
    "given": """
known, excluded, forbidden_transitions : optional
    Constraints; see `predict`. Probabilities are conditional on them.
""",
    "entities": """
entities : list of list of tuple
    Tuples (start, stop, label, probability) for each sequence: the chunks of
    `sksstruct.metrics.iter_chunks`, for labels of any scheme. The probability is exact:
    the sum over all labelings that have an entity with these bounds and this label.
""",
    "explanation": """
explanation : Explanation
    The best labeling and the best labeling with another label at the position, with a
    table of the contributions that sum to the difference of their scores. Notebooks
    display the table, and `to_pandas` converts it.
""",
    "loss_weight": """
sample_weight : array-like of shape (n_samples,), default=None
    Weight of the loss of each sample.
""",
    "score_weight": """
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the samples.
""",
}
