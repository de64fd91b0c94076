"""Numbers of the figures, read from the tables of the pages, their only place."""

import csv
import re
from pathlib import Path

import matplotlib.pyplot as plt

# One color for a program in all figures: blue is sksstruct, light blue its second bar.
OWN, SECOND = "C0", "C9"
PEERS = {
    "CRFsuite": "C7",
    "liblinear": "C1",
    "scikit-learn": "C1",
    "toulbar2": "C3",
    "AD3": "C6",
    "PyMaxflow": "C5",
    "C loop": "C2",
    "published": "C8",
}
# Color and line of a solver.
SOLVERS = {
    "BCFW, auto": ("C0", "o-"),
    "BCFW, as published": ("C9", "o--"),
    "Casimir, adaptive": ("C2", "s-"),
    "n-slack cutting planes": ("C3", "^-"),
    "SSG, 1 / (alpha t)": ("C4", "v-"),
    "BMRM": ("C5", "D-"),
    "Frank-Wolfe": ("C6", "x-"),
}


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


def file_rows(name):
    """Rows of the file of a table in this folder, as dicts."""
    with open(Path(__file__).parent / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def number(cell):
    """The number in a cell, the middle of a range, or None."""
    ends = between(cell)
    return None if ends is None else sum(ends) / 2


def between(cell):
    """Both ends of the range in a cell, the same where it is a number, or None."""
    found = re.fullmatch(r"([\d.]+)(?:-([\d.]+))?", cell)
    if found is None:
        return None
    return float(found.group(1)), float(found.group(2) or found.group(1))


def draw_calls(data, title):
    """Draw the distance of solvers to the optimum against their oracle calls."""
    calls, least = (10, 30, 100), 5e-5  # the table has four digits
    table = {row["solver"]: row for row in rows("solvers", "solver", "OCR, 10")}
    ax = plt.figure().subplots()
    for name, (color, style) in SOLVERS.items():
        values = [max(number(table[name][f"{data}, {n}"]), least) for n in calls]
        ax.plot(calls, values, style, color=color, label=name)
    ax.set(
        title=title,
        xlabel="oracle calls for each example",
        ylabel="objective above its minimum",
        xscale="log",
        yscale="log",
        xlim=(9, 900),
    )
    ax.set_xticks(calls, calls)
    ax.minorticks_off()
    ax.legend(loc="right")
