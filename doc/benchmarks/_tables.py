"""Numbers of the figures, read from the tables of the pages, their only place."""

import re
from pathlib import Path


def rows(page, *columns):
    """Rows of the first simple table of a page with these first columns, as dicts.

    Parameters
    ----------
    page : str
        Name of a page in this folder.
    columns : str
        Headers of the first columns.
    """
    lines = (Path(__file__).parent / f"{page}.rst").read_text("utf-8").splitlines()
    borders = [k for k, line in enumerate(lines) if re.fullmatch(r"=+( +=+)+", line)]
    for top, middle, bottom in zip(*[iter(borders)] * 3, strict=True):
        starts = [found.start() for found in re.finditer(r"=+", lines[top])]
        table = [
            [
                line[a:b].strip()
                for a, b in zip(starts, [*starts[1:], None], strict=True)
            ]
            for line in lines[top + 1 : bottom]
        ]
        heads = table[: middle - top - 1]
        header = [" ".join(parts).strip() for parts in zip(*heads, strict=True)]
        if header[: len(columns)] == [*columns]:
            return [
                dict(zip(header, row, strict=True)) for row in table[len(heads) + 1 :]
            ]
    raise ValueError(f"{page}.rst has no table that begins with {columns}")


def number(cell):
    """The number in a cell, the middle of a range, or None."""
    found = re.fullmatch(r"([\d.]+)(?:-([\d.]+))?", cell)
    if found is None:
        return None
    first, last = found.group(1), found.group(2) or found.group(1)
    return (float(first) + float(last)) / 2
