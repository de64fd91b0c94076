"""The protocol of all that solvers train: what they may ask before any oracle."""

from typing import Any


class Trainable:
    """What every solver may ask of a model that is bound to data, with the defaults.

    `BoundModel` has the same attributes and defaults; it is compiled, so that it cannot
    derive from this class. All other models that solvers train derive from it: they
    wrap bound models, or have no labelings. Whatever else a solver asks for comes with
    an oracle: methods of `BoundModel`, or functions of `sksstruct.models.roles`.

    Attributes
    ----------
    n_examples, n_weights : int
        Numbers of examples and of weights.
    example_weights : ndarray of shape (n_examples,)
        Their weights p_i, which sum to one.
    oracles : tuple of str
        Names of the oracles that the model has.
    oracle_note : str or None
        Tells those who ask for an oracle that is missing why it is.
    oracle_bounds, surrogate, likelihood, binder, completion : objects
        As `BoundModel` states them.
    preferred_solver : str or None
        The solver that "auto" stands for, where it is not the one for all models.
    prefers_sums : bool
        Whether smoothing by name sums over all labelings.
    unknown : ndarray or None
        Labels that were not observed.
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
        """Bounds on weights, of which there are none."""
        return None
