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
