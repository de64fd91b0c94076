"""What the parameter `loss` of a classifier means for a model."""

from sklearn.base import clone

from sksstruct.losses import SmoothedHinge
from sksstruct.models import MODELS

# The oracle that a smoothing needs, and what it is for.
_ORACLES = {
    "entropy": ("exp", "sums over all outputs"),
    "l2": ("topk", "the k best outputs"),
}


def check_loss(loss, spec):
    """Raise an error if a loss, or a parameter of the model with it, is not valid.

    Parameters
    ----------
    loss : str or SmoothedHinge
        Parameter of the estimator.
    spec : StructuredModel
        The model, before it sees data.
    """
    if loss == "log":
        for name in spec._loss_parameters:
            if getattr(spec, name) is not None:
                raise ValueError(
                    f"{name} of {type(spec).__name__} is the cost of an error, which "
                    "loss='log' does not have; use sample_weight, or a hinge loss"
                )
    elif isinstance(loss, SmoothedHinge):
        loss.check()


def set_loss(loss, spec, model):
    """Tell a bound model which loss is minimized.

    Parameters
    ----------
    loss : str or SmoothedHinge
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
    if loss == "hinge":
        return
    # with a score function, those of the model whose weights are the scores
    of_scores = model if spec._score_function is None else model.of_scores
    offered = of_scores.oracles
    if loss == "log":
        # the likelihood is smoothed by the entropy, with mu = 1 and without costs
        surrogate, model.likelihood = SmoothedHinge("entropy", 1.0, 1), True
    elif loss == "smoothed_hinge":
        by_sums = "exp" in offered or "topk" not in offered
        surrogate = SmoothedHinge("entropy" if by_sums else "l2")
    else:
        surrogate = clone(loss)
        surrogate.check()
    oracle, what = _ORACLES[surrogate.smoothing]
    if oracle not in offered:
        text = (
            f"loss={loss!r} needs {what}, the oracle {oracle}; this "
            f"{type(spec).__name__} has {', '.join(offered)}"
        )
        if of_scores.oracle_note is not None:
            text += f": {of_scores.oracle_note}"
        elif loss == "smoothed_hinge" or oracle == "topk":
            text += "; it needs a method loss_augmented_topk, or use loss='hinge'"
        else:
            text += "; use loss='hinge'"
        raise ValueError(text)
    model.surrogate = surrogate


def has_probabilities(flat, name=None):
    """A check for `available_if`: whether there are probabilities.

    Parameters
    ----------
    flat : bool
        Whether those of outputs, or those of their parts, are asked for.
    name : str, default=None
        Name of the method, where it is another one.
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
        # what was fitted; the parameters may have changed since
        loss = estimator._loss or estimator.loss
        if loss != "log":
            raise AttributeError(
                f"{name} needs loss='log', the likelihood; this "
                f"{type(estimator).__name__} has loss={loss!r}"
            )

    return check
