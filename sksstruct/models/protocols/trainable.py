"""The protocol of all models that solvers train, apart from oracles."""

from typing import Any


class Trainable:
    """Attributes and defaults of every model that is bound to data for a solver.

    `BoundModel` has the same attributes and defaults; it is compiled, so that it cannot
    derive from this class. All other models that solvers train derive from it: models
    that wrap bound models, or have no labelings. Oracles are methods of `BoundModel`,
    or functions of `sksstruct.models.roles`.

    Attributes
    ----------
    n_examples, n_weights : int
        Numbers of examples and of weights.
    example_weights : ndarray of shape (n_examples,)
        The weights p_i of the examples, which sum to one.
    oracles : tuple of str
        Names of the oracles that the model has.
    oracle_note : str or None
        The reason in error messages why an oracle is missing.
    oracle_bounds, surrogate, likelihood, binder, completion : objects
        As in `BoundModel`.
    preferred_solver : str or None
        The name of the solver that "auto" selects for this model; None if "auto"
        applies its general rule.
    prefers_sums : bool
        Whether smoothing that a user requests by its name sums over all labelings.
    unknown : ndarray or None
        Whether each label was not observed.
    views_need_data : bool
        Whether `views` reads the data, and not only the layout of the weights.
    """

    n_examples: int
    n_weights: int
    example_weights: Any
    oracles: tuple[str, ...] = ()
    oracle_note = oracle_bounds = surrogate = preferred_solver = None
    binder = completion = unknown = None
    views_need_data = likelihood = prefers_sums = False

    def box(self, bounds=None):
        """Return bounds on weights; None, as there are none."""
        return None
