"""The parameter `loss`: its surrogate for a model, and whether it is a likelihood."""

from sksstruct.losses import resolve_loss
from sksstruct.models import MODELS

# Description of the oracles that smoothed losses need.
_ORACLES = {"exp": "sums over all outputs", "topk": "the k best outputs"}


def set_loss(loss, spec, model):
    """Set the surrogate loss of a bound model, which the solver minimizes.

    Parameters
    ----------
    loss : str or Surrogate
        Parameter of the estimator.
    spec : StructuredModel
        The model.
    model : BoundModel
        The model bound to data.

    Raises
    ------
    ValueError
        If the model lacks the oracle that the loss needs.
    """
    # with a score function, the oracles are those of the model whose weights are the
    # scores
    of_scores = model if spec._score_function is None else model.of_scores
    offered, chosen = of_scores.oracles, resolve_loss(loss)
    surrogate = chosen.for_oracles(offered)
    if surrogate is None:
        return
    if surrogate.oracle not in offered:
        text = (
            f"loss={loss!r} needs {_ORACLES[surrogate.oracle]}, the oracle "
            f"{surrogate.oracle}; this {type(spec).__name__} has {', '.join(offered)}"
        )
        if of_scores.oracle_note is not None:
            text += f": {of_scores.oracle_note}"
        elif chosen.oracle == "topk":
            text += "; it needs a method loss_augmented_topk, or use loss='hinge'"
        else:
            text += "; use loss='hinge'"
        raise ValueError(text)
    model.surrogate, model.likelihood = surrogate, chosen.is_likelihood


def loss_of(estimator):
    """The surrogate of the last fit, as the parameter `loss` may have changed since."""
    return resolve_loss(estimator._loss or estimator.loss)


def has_probabilities(flat, name=None):
    """A check for `available_if`: whether the model and the loss give probabilities.

    Parameters
    ----------
    flat : bool
        True if the method returns probabilities of whole outputs; False if it returns
        probabilities of their parts.
    name : str, default=None
        Name of the method; None for `predict_proba` or `predict_marginals`.
    """
    if name is None:
        name = "predict_proba" if flat else "predict_marginals"

    def check(estimator):
        model = vars(estimator).get("model_")
        if model is None:
            model = vars(estimator).get("model", "segments")
        if isinstance(model, str):
            model = MODELS[model]() if model in MODELS else None
        if model is None or model.is_flat != flat or not model._has_marginals:
            other = "predict_proba" if not flat else "predict_marginals"
            hint = ""
            if model is not None and model._has_marginals:
                hint = f"; use {other}"
            what = estimator.model if model is None else model
            raise AttributeError(
                f"{name} is not available for {what!r}, whatever the loss{hint}"
            )
        if not loss_of(estimator).is_likelihood:
            raise AttributeError(
                f"{name} needs loss='log', the likelihood; this "
                f"{type(estimator).__name__} has "
                f"loss={estimator._loss or estimator.loss!r}"
            )

    return check
