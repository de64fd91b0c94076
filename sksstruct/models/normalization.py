"""What the loss of an example is divided by, if outputs differ in size.

A loss that adds up over the parts of an output, such as the wrong nodes of a graph, is
divided by the mean size of the outputs of the training data ("mean"), by the own size
of the output ("example"), or by nothing (None). With "mean" a wrong part costs the same
in all outputs; with "example" a wrong output costs at most 1, whatever its size.
"""

TEXTS = {
    "loss_normalization": """
loss_normalization : {"mean", "example"} or None, default="example"
    Divisor of the loss of an example. "mean": the mean size of the outputs in the
    training data. "example": the size of the output. None: no division.
"""
}


def divisor(normalization, size, mean):
    """What losses are divided by.

    Parameters
    ----------
    normalization : {"mean", "example"} or None
        The parameter of a model.
    size : int or ndarray
        Sizes of outputs.
    mean : float or None
        Mean size in the training data; None before there are any.

    Returns
    -------
    divisor : float or ndarray
        A number for all outputs, or for each.
    """
    if normalization == "mean" and mean is None:
        raise ValueError("the mean size is not known before the model has seen data")
    return {"mean": mean, "example": size, None: 1.0}[normalization]


# What alpha="auto" stands for where features are divided by the number of nodes, but
# for their scale.
NODE_ALPHA = 1e-3


def size_alpha(model, n_nodes, is_normalized, is_sum):
    """What alpha="auto" of outputs of many nodes stands for, but for the scale.

    Scores, and losses that are not divided, grow with the number of nodes: outputs of
    any size have the alpha of those whose features are divided by it.

    Parameters
    ----------
    model : ModelSpec
        The model.
    n_nodes : float
        Mean number of nodes.
    is_normalized, is_sum : bool
        Whether features are divided by it, and losses are not.
    """
    size = 1.0 if is_normalized else n_nodes**2
    if model.is_likelihood:
        return NODE_ALPHA * size / n_nodes
    return NODE_ALPHA * size * (n_nodes if is_sum else 1.0)
