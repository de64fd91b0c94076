"""Tables and figures of the page on the papers' claims, from what `make papers` wrote.

`write` is called by ``conf.py`` before Sphinx looks for pages. Numbers come from the
files ``papers/*.json`` alone: nothing on the page is typed.
"""

import json
import re
from collections import Counter

import _generate

# Figures: paper, claim, logarithmic axes, title.
_FIGURES = {
    "gap_bcfw": (
        ("Fig. 3, 5, 6: gap sampling", "y", "OCR large, lambda 0.01"),
        ("Fig. 4, 8: path and grid", "xy", "Cost of a path"),
    ),
    "bmrm_pragam": (
        ("Theorems 6, 7", "xy", "The lower bound of BMRM"),
        ("Fig. 1, 6", "xy", "a9a, lambda 0.001"),
    ),
    "gdmm_map": (("Theorems 1, 2", "y", "Linear convergence"),),
    "gdmm_learning": (
        ("Fig. 2, left", "y", "Penalties and multipliers"),
        ("Fig. 3: ChineseOCR", "xy", "Work of a pass"),
    ),
    "casimir": (
        ("Fig. 2", "xy", "Entities"),
        ("Fig. 4", "", "Scores of two layers"),
    ),
}


def write(folder):
    """Write a table and figures for each paper below ``generated/papers``.

    Parameters
    ----------
    folder : Path
        Where the documentation's sources are.
    """
    target = folder / "generated" / "papers"
    target.mkdir(parents=True, exist_ok=True)
    counts = []
    for name, figures in _FIGURES.items():
        record = json.loads((folder / "papers" / f"{name}.json").read_text())
        claims = {row["where"]: row for row in record["claims"]}
        _generate._update(target / f"{name}.inc", _page(record))
        found = Counter(row["verdict"] for row in record["claims"])
        counts.append((record["title"], *(str(found[v]) for v in _VERDICTS)))
        for k, (where, axes, title) in enumerate(figures):
            _draw(claims[where], axes, title, target / f"{name}_{k}.png")
    header = "paper", *_VERDICTS
    _generate._update(target / "counts.inc", _generate._table(header, counts, "counts"))


_VERDICTS = "held", "not held", "not testable"


def _plain(text):
    """Text in which nothing is markup."""
    # a lone hyphen would be a bullet
    return re.sub(r"([\\*`|_]|^-$)", r"\\\1", text)


def _page(record):
    """The table of verdicts, the tables of numbers, and how they came about."""
    rows = [
        (_plain(row["where"]), _plain(row["says"]), f"**{row['verdict']}**",
         _plain(row["saw"]))
        for row in record["claims"]
    ]  # fmt: skip
    header = "where", "claim", "verdict", "what we see"
    table = _generate._table(header, rows, "stacked")
    # texts are long: the last column gets the room
    table = table.replace(
        ":header-rows: 1", ":header-rows: 1\n   :widths: 12 34 10 44", 1
    )
    parts = [table]
    for row in record["claims"]:
        if row.get("rows"):
            parts += [f".. rubric:: {_plain(row['where'])}", "", _numbers(row["rows"])]
    versions = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    commits = sorted({row["commit"] for row in record["claims"] if row.get("commit")})
    seconds = sum(row.get("cpu_seconds", 0) for row in record["claims"])
    parts += [
        f"{record['size'].capitalize()} size, {seconds:.0f} CPU seconds on "
        f"{_plain(record['machine'])}; {versions}; commit {', '.join(commits)}.",
        "",
    ]
    return "\n".join(parts)


def _numbers(rows):
    """Rows of an experiment as a table."""
    cells = [[_cell(value) for value in row.values()] for row in rows]
    header = [_plain(str(name)) for name in rows[0]]
    return _generate._table(header, cells, "numbers")


def _cell(value):
    if isinstance(value, float):
        return f"{value:.3g}"
    return "" if value is None else _plain(str(value))


def _draw(row, axes, title, path):
    """Draw the curves of a claim."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.2, 3.7), layout="constrained")
    for label, (x, y) in row["curves"].items():
        ax.plot(x, y, label=label, marker="." if len(x) < 20 else "")
    ax.set(xlabel=row["axes"][0], ylabel=row["axes"][1], title=title)
    ax.set_xscale("log" if "x" in axes else "linear")
    ax.set_yscale("log" if "y" in axes else "linear")
    ax.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)
