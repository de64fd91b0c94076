"""Losses by name, and their creation from a name or an object."""


class Registry:
    """Losses of one kind, each with the name that selects the loss.

    Parameters
    ----------
    makers : dict
        For each name a callable that makes the loss without arguments.
    kinds : tuple of type
        Base classes of the losses.
    what : str
        Name of the parameter in messages.
    """

    def __init__(self, makers, kinds, what):
        self.makers, self.kinds, self.what = makers, kinds, what

    def names(self):
        """Return the names of the losses, sorted."""
        return sorted(self.makers)

    def resolve(self, loss):
        """Return the loss of a name, with default parameters, or a given loss itself.

        Parameters
        ----------
        loss : str or object
            A name, or an object of the kind, whose parameters are not checked.

        Raises
        ------
        ValueError
            If there is no loss of that name.
        TypeError
            If `loss` is neither a name nor an object of the kind.
        """
        if isinstance(loss, str):
            if loss not in self.makers:
                raise ValueError(
                    f"The {self.what!r} parameter must be a name among {self.names()} "
                    f"or an object of sksstruct.losses, got {loss!r:.80}"
                )
            return self.makers[loss]()
        if not isinstance(loss, self.kinds):
            kinds = " or ".join(each.__name__ for each in self.kinds)
            raise TypeError(
                f"The {self.what!r} parameter must be a name among {self.names()} or a "
                f"{kinds} of sksstruct.losses, got {loss!r:.80}"
            )
        return loss
