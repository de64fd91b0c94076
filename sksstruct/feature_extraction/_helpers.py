"""Attributes of tokens as lists of strings, the input format of CRFsuite."""

from collections.abc import Mapping, Sequence, Sized
from numbers import Integral

from sksstruct.utils.typing import Integers, Strings


def _check_tokens(name, tokens):
    """Raise an error, which names the place, unless `tokens` are strings."""
    if isinstance(tokens, str) or not isinstance(tokens, Sized):
        raise TypeError(f"{name} must be a list of strings, got {tokens!r:.80}")
    if set(map(type, tokens)) <= {str}:
        return
    for t, token in enumerate(tokens):
        if not isinstance(token, str):
            raise TypeError(f"{name}[{t}] must be a string, got {token!r:.80}")


def _check_templates(templates, columns):
    """Raise an error unless templates are pairs of an existing column and an offset."""
    for k, template in enumerate(templates):
        pairs = isinstance(template, list | tuple) and all(
            isinstance(part, list | tuple)
            and len(part) == 2
            and isinstance(part[1], Integral)
            for part in template
        )
        if not pairs or not template:
            raise TypeError(
                f"templates[{k}] must be a list of (column, offset) pairs, got "
                f"{template!r:.80}"
            )
        for column, _ in template:
            if column not in columns:
                raise ValueError(
                    f"templates[{k}] has the column {column!r:.80}; columns are "
                    f"{sorted(columns)!r:.80}"
                )


def columns_of(name, positions, wanted=None):
    """Return the named columns of a sequence whose positions are dicts.

    Parameters
    ----------
    name : str
        Name of the sequence in errors.
    positions : list of dict
        A sequence of `sequences_from_table`.
    wanted : list of str, default=None
        Names of the columns, in order; None for the names in the first position.

    Returns
    -------
    columns : dict of {str: list}
        The values of each column.
    """
    wanted = list(positions[0]) if wanted is None else wanted
    for t, row in enumerate(positions):
        if not isinstance(row, Mapping):
            raise TypeError(f"{name}[{t}] must be a dict as {name}[0], got {row!r:.80}")
        if len(row) != len(wanted) or not all(key in row for key in wanted):
            raise ValueError(
                f"{name}[{t}] has the columns {list(row)!r:.80}, expected "
                f"{wanted!r:.80}"
            )
    return {key: [row[key] for row in positions] for key in wanted}


def window_features(
    columns: Mapping[str, Strings] | Sequence[Mapping[str, str]],
    templates: Sequence[Sequence[tuple[str, int]]],
    *,
    boundary: bool = True,
) -> list[list[str]]:
    """Attributes from templates over a window of positions.

    Parameters
    ----------
    columns : dict of {str: sequence of str}, or list of dict
        Named columns of one sequence, for instance ``{"w": words, "pos": tags}``; or a
        sequence that `sequences_from_table` returned, with a dict for each position.
    templates : sequence of sequences of (str, int)
        Each template is a list of (column, offset) pairs; its attribute joins the
        values at these offsets. A position does not get the attribute if an offset
        is outside the sequence.
    boundary : bool, default=True
        Whether to mark the first and last position with ``__BOS__`` and ``__EOS__``.

    Returns
    -------
    features : list of list of str
        Attributes of each position.

    Raises
    ------
    TypeError
        If a token is not a string; the error names its position.

    Examples
    --------
    >>> from sksstruct.feature_extraction import window_features
    >>> window_features({"w": ["a", "b"]}, [[("w", 0)], [("w", -1), ("w", 0)]])
    [['w[0]=a', '__BOS__'], ['w[0]=b', 'w[-1]|w[0]=a|b', '__EOS__']]
    """
    if isinstance(columns, list) and columns and isinstance(columns[0], Mapping):
        columns = columns_of("columns", columns)
    if not isinstance(columns, Mapping):
        raise TypeError(
            "columns must be a dict of the columns of one sequence, such as "
            f"{{'w': words}}, or a list of dicts, got {columns!r:.80}"
        )
    for name, column in columns.items():
        _check_tokens(f"columns[{name!r}]", column)
    _check_templates(templates, columns)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns must have the same length, got {lengths}")
    size = next(iter(lengths.values()), 0)
    features = [[] for _ in range(size)]
    for template in templates:
        prefix = "|".join(f"{column}[{offset}]" for column, offset in template) + "="
        low = max(0, -min(offset for _, offset in template))
        high = size - max(0, max(offset for _, offset in template))
        parts = [(columns[column], offset) for column, offset in template]
        # fast path: most templates have one part
        if len(parts) == 1:
            ((values, offset),) = parts
            for t in range(low, high):
                features[t].append(prefix + values[t + offset])
        else:
            for t in range(low, high):
                joined = "|".join([values[t + offset] for values, offset in parts])
                features[t].append(prefix + joined)
    if boundary and size:
        features[0].append("__BOS__")
        features[-1].append("__EOS__")
    return features


def affix_features(
    tokens: Strings, *, lengths: Integers = (1, 2, 3), name: str = "w"
) -> list[list[str]]:
    """Prefixes and suffixes of each token.

    Parameters
    ----------
    tokens : sequence of str
        Tokens of one sequence.
    lengths : sequence of int, default=(1, 2, 3)
        Lengths of the affixes. A token has no affixes that are longer than itself.
    name : str, default="w"
        Name of the column in the attributes.

    Returns
    -------
    features : list of list of str
        Attributes of each position.

    Raises
    ------
    TypeError
        If a token is not a string; the error names its position.

    Examples
    --------
    >>> from sksstruct.feature_extraction import affix_features
    >>> affix_features(["cats"], lengths=[1, 3])
    [['w:prefix=c', 'w:suffix=s', 'w:prefix=cat', 'w:suffix=ats']]
    """
    _check_tokens("tokens", tokens)
    return [affixes_of(token, lengths, name) for token in tokens]


def affixes_of(token, lengths, name):
    """Return the attributes for prefixes and suffixes of a token."""
    row = []
    for length in lengths:
        if len(token) >= length:
            row.append(f"{name}:prefix={token[:length]}")
            row.append(f"{name}:suffix={token[len(token) - length :]}")
    return row


def morphology_features(column: Strings, *, name: str = "m") -> list[list[str]]:
    """Morphological features of each token, from a column in the format of CoNLL-U.

    Parameters
    ----------
    column : sequence of str
        The column of one sequence: features of a token are joined by ``|``, and ``_``
        stands for no features.
    name : str, default="m"
        Name of the column in the attributes.

    Returns
    -------
    features : list of list of str
        Attributes of each position.

    Raises
    ------
    TypeError
        If an entry is not a string; the error names its position.

    Examples
    --------
    >>> from sksstruct.feature_extraction import morphology_features
    >>> morphology_features(["Case=Nom|Number=Sing", "_"])
    [['m:Case=Nom', 'm:Number=Sing'], []]
    """
    _check_tokens("column", column)
    return [[f"{name}:{part}" for part in morphology_of(text)] for text in column]


def morphology_of(text):
    """Split an entry of the column FEATS of CoNLL-U; ``_`` stands for no features."""
    return [] if text == "_" else text.split("|")


def shape_features(tokens: Strings, *, name: str = "w") -> list[list[str]]:
    """Word shape of each token: X, x and 9 for letters and digits, runs collapsed.

    Parameters
    ----------
    tokens : sequence of str
        Tokens of one sequence.
    name : str, default="w"
        Name of the column in the attributes.

    Returns
    -------
    features : list of list of str
        Attributes of each position.

    Raises
    ------
    TypeError
        If a token is not a string; the error names its position.

    Examples
    --------
    >>> from sksstruct.feature_extraction import shape_features
    >>> shape_features(["McCain-99"])
    [['w:shape=XxXx-9']]
    """
    _check_tokens("tokens", tokens)
    return [[f"{name}:shape={shape_of(token)}"] for token in tokens]


def shape_of(token):
    """Return the shape of a token, such as XxXx-9 for McCain-99."""
    shape, before = "", None
    for letter in token:
        if letter.isupper():
            kind = "X"
        elif letter.isalpha():
            kind = "x"
        elif letter.isdigit():
            kind = "9"
        else:
            kind = letter
        if kind != before:
            shape += kind
            before = kind
    return shape
