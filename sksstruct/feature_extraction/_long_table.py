"""Sequences from a table with one row for each position."""

from collections.abc import Mapping, Sequence
from typing import Any

from sksstruct.utils.labels import is_missing


def sequences_from_table(
    table: Any,
    by: str | Sequence[str],
    *,
    target: str | None = None,
    columns: str | Sequence[str] | None = None,
    fill_ids: bool = False,
    contiguous: bool = True,
) -> tuple[list[list], list[list] | Any]:
    """Split a table with one row for each position into sequences.

    Parameters
    ----------
    table : DataFrame, mapping of {str: array-like}, or structured ndarray
        A pandas or polars DataFrame, or named columns in another form.
    by : str or list of str
        Column, or columns, that identify the sequence of a row.
    target : str, default=None
        Column of the labels.
    columns : str or list of str, default=None
        Columns of the features, by default all columns except `by` and `target`.
        Positions are dicts of these columns. With a single name, not in a list,
        positions are the values of that column.
    fill_ids : bool, default=False
        Whether to fill missing entries of `by` with the entry above, for tables that
        have the id of a sequence only in its first row.
    contiguous : bool, default=True
        Whether the rows of a sequence must be contiguous. If False, the rows of each
        sequence are collected, and sequences are in the order of their first rows.

    Returns
    -------
    X : list of list
        The positions of each sequence, in the order of the rows: dicts, or the values
        of a column.
    y : list of list or None
        The labels of each sequence, with None for a missing label; None without
        `target`.

    Raises
    ------
    ValueError
        If a column does not exist or has another length, an entry of a sequence's id or
        of a feature is missing, or rows of a sequence are not contiguous.

    See Also
    --------
    sksstruct.datasets.read_conll : Sequences from a file with empty lines between.
    SequenceVectorizer : Feature rows from dicts.
    ColumnFeatures : Attributes of neighboring tokens from the returned X.

    Examples
    --------
    >>> from sksstruct.feature_extraction import sequences_from_table
    >>> table = {
    ...     "sentence": [1, 1, 2],
    ...     "word": ["He", "ran", "Yes"],
    ...     "tag": ["PRP", "VBD", "UH"],
    ... }
    >>> X, y = sequences_from_table(table, "sentence", target="tag")
    >>> X
    [[{'word': 'He'}, {'word': 'ran'}], [{'word': 'Yes'}]]
    >>> y
    [['PRP', 'VBD'], ['UH']]
    >>> sequences_from_table(table, "sentence", columns="word")[0]
    [['He', 'ran'], ['Yes']]
    """
    names = _column_names(table)
    by = [by] if isinstance(by, str) else list(by)
    if not by:
        raise ValueError("by is empty: name the column of the sequences' ids")
    if columns is None:
        columns = [name for name in names if name not in by and name != target]
    single = isinstance(columns, str)
    chosen = [columns] if single else list(columns)
    wanted = by + chosen + ([] if target is None else [target])
    values = _read_columns(table, names, wanted)
    ids = list(zip(*[_ids(values[name], name, fill_ids) for name in by], strict=True))
    for name in chosen:
        _check_no_gaps(values[name], name)
    if single:
        rows = values[columns]
    else:
        cells = zip(*[values[name] for name in chosen], strict=True)
        rows = [dict(zip(chosen, row, strict=True)) for row in cells]
        # without columns, zip gives no rows
        rows = rows if chosen else [{} for _ in ids]
    parts = _parts(ids, by, contiguous)
    X = [[rows[i] for i in part] for part in parts]
    if target is None:
        return X, None
    labels = [None if is_missing(label) else label for label in values[target]]
    return X, [[labels[i] for i in part] for part in parts]


def _column_names(table):
    """Names of the columns of a table of any kind."""
    if isinstance(table, Mapping):
        return list(table)
    # structured arrays of NumPy have names of fields, data frames `columns`
    fields = getattr(getattr(table, "dtype", None), "names", None)
    if fields is not None:
        return list(fields)
    if hasattr(table, "columns"):
        return list(table.columns)
    raise TypeError(
        f"table is a {type(table).__name__}: pass a DataFrame, a dict of columns or a "
        "structured array"
    )


def _read_columns(table, names, wanted):
    """The columns `wanted` as lists of Python objects, all of the same length."""
    values = {}
    for name in wanted:
        if names.count(name) != 1:
            problem = "has two columns" if name in names else "has no column"
            raise ValueError(
                f"table {problem} {name!r:.80}; its columns are {names!r:.80}"
            )
        column = table[name]
        # pandas and NumPy have tolist, polars has to_list
        convert = getattr(column, "tolist", getattr(column, "to_list", None))
        values[name] = list(column) if convert is None else convert()
    lengths = {name: len(column) for name, column in values.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of table differ in length: {lengths}")
    return values


def _ids(column, name, fill):
    """Return the ids of a column; with `fill`, a missing id becomes the id above."""
    ids = []
    for row, value in enumerate(column):
        if is_missing(value):
            if not fill:
                raise ValueError(
                    f"row {row} of table has no {name!r:.80}: pass fill_ids=True if "
                    "only the first row of a sequence has it"
                )
            if not ids:
                raise ValueError(
                    f"row 0 of table has no {name!r:.80}: with fill_ids=True, the "
                    "first row must have it"
                )
            value = ids[-1]
        ids.append(value)
    return ids


def _check_no_gaps(column, name):
    for row, value in enumerate(column):
        if is_missing(value):
            raise ValueError(
                f"row {row} of table has no {name!r:.80}: fill missing values in "
                "first; note that pandas.read_csv takes words such as 'NA' and 'null' "
                "for missing unless keep_default_na=False"
            )


def _parts(ids, by, contiguous):
    """Return the row indices of each sequence, given the id of each row."""
    parts, previous = {}, None
    for row, key in enumerate(ids):
        if key not in parts:
            parts[key] = []
        elif contiguous and key != previous:
            shown = ", ".join(
                f"{name} {value!r:.80}" for name, value in zip(by, key, strict=True)
            )
            raise ValueError(
                f"the sequence of {shown} ended at row {parts[key][-1]} and continues "
                f"at row {row}: name in `by` all columns that tell sequences apart, or "
                "pass contiguous=False to bring its rows together"
            )
        parts[key].append(row)
        previous = key
    return list(parts.values())
