"""Divisors of the loss of an example, for outputs that differ in size.

A loss that is a sum over the parts of an output, such as the wrong nodes of a graph, is
divided by the mean size of the outputs of the training data ("mean"), by the size of
the output ("example"), or not at all (None). With "mean" a wrong part costs the same in
all outputs; with "example" a wrong output costs at most 1, whatever its size.
"""

TEXTS = {
    "loss_normalization": """
loss_normalization : {"mean", "example"} or None, default="example"
    Divisor of the loss of an example. "mean": the mean size of the outputs in the
    training data. "example": the size of the output. None: no division.
"""
}


def divisor(normalization, size, mean):
    """Divisor of the losses of outputs.

    Parameters
    ----------
    normalization : {"mean", "example"} or None
        The parameter of a model.
    size : int or ndarray
        Sizes of outputs.
    mean : float or None
        Mean size in the training data; None before training.

    Returns
    -------
    divisor : float or ndarray
        One number for all outputs, or an array with a number for each.
    """
    if normalization == "mean" and mean is None:
        raise ValueError("the mean size is not known before the model has seen data")
    return {"mean": mean, "example": size, None: 1.0}[normalization]


# alpha="auto" for features that are divided by the number of nodes, without the factor
# of their scale.
NODE_ALPHA = 1e-3


def size_alpha(model, n_nodes, is_normalized, is_sum):
    """alpha="auto" for outputs of many nodes, without the factor of the scale.

    Scores, and losses that are not divided, grow with the number of nodes. With this
    alpha, training is equivalent to training with features, and losses, that are
    divided by the number of nodes.

    Parameters
    ----------
    model : ModelSpec
        The model.
    n_nodes : float
        Mean number of nodes.
    is_normalized, is_sum : bool
        Whether features are divided by `n_nodes`, and whether losses are not divided.
    """
    size = 1.0 if is_normalized else n_nodes**2
    if model.is_likelihood:
        return NODE_ALPHA * size / n_nodes
    return NODE_ALPHA * size * (n_nodes if is_sum else 1.0)
