"""Label constraints by name."""

from collections.abc import Iterable


def bio_transitions(labels: Iterable[str]) -> list[tuple]:
    """Pairs of labels that the BIO scheme forbids.

    An ``I-X`` continues a chunk of kind X: it may only follow ``B-X`` or ``I-X``, and
    must not come first.

    Parameters
    ----------
    labels : iterable of str
        Labels ``"O"``, ``"B-..."`` and ``"I-..."``.

    Returns
    -------
    forbidden : list of tuple
        Pairs (from, to); None stands for the start of a sequence.

    Raises
    ------
    ValueError
        If a label is of another form.

    Examples
    --------
    >>> from sksstruct.inference import bio_transitions
    >>> bio_transitions(["O", "B-NP", "I-NP"])
    [(None, 'I-NP'), ('O', 'I-NP')]
    """
    labels = list(labels)
    for label in labels:
        if not isinstance(label, str) or (
            label != "O" and (label[:2] not in ("B-", "I-"))
        ):
            raise ValueError(
                f"label {label!r} is not of the BIO scheme: 'O', 'B-...' or 'I-...'"
            )
    return [
        (before, label)
        for label in labels
        if label[:2] == "I-"
        for before in [None, *labels]
        if before not in (f"B-{label[2:]}", label)
    ]
