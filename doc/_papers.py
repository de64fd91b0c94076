"""Tables and figures of the page on the papers' claims, from what `make papers` wrote.

`write` is called by ``conf.py`` before Sphinx looks for pages. Numbers come from the
files ``papers/*.json`` alone: nothing on the page is typed.
"""

import json
import re
from collections import Counter

import _generate

_NAMES = "gap_bcfw", "bmrm_pragam", "gdmm_map", "gdmm_learning", "casimir"
_VERDICTS = "holds", "holds on some", "does not hold", "cannot be tested"
# An axis is logarithmic if its values differ by more than this factor.
_WIDE = 30


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
    for name in _NAMES:
        record = json.loads((folder / "papers" / f"{name}.json").read_text())
        figures = []
        for k, row in enumerate(record["claims"]):
            if row.get("curves"):
                figures.append(_draw(row, target / f"{name}_{k}.png"))
        _generate._update(target / f"{name}.inc", _page(record, figures))
        # "holds on 3 of 4" is counted as "holds on some"
        found = Counter(
            re.sub(r"on \d+ of \d+", "on some", row["verdict"])
            for row in record["claims"]
        )
        counts.append((record["title"], *(str(found[v]) for v in _VERDICTS)))
    header = "paper", *_VERDICTS
    _generate._update(target / "counts.inc", _generate._table(header, counts, "counts"))


def _plain(text):
    """Text in which nothing is markup."""
    # a lone hyphen would be a bullet
    return re.sub(r"([\\*`|_]|^-$)", r"\\\1", text)


def _page(record, figures):
    """The table of verdicts, figures, tables of numbers, and how they came about."""
    rows = [
        (_plain(row["where"]), _plain(row["says"]), f"**{row['verdict']}**",
         _plain(f"{row['saw']} {row['why']}".strip()))
        for row in record["claims"]
    ]  # fmt: skip
    header = "where", "claim", "verdict", "what we see"
    table = _generate._table(header, rows, "stacked")
    # texts are long: the last column gets the room
    table = table.replace(
        ":header-rows: 1", ":header-rows: 1\n   :widths: 12 34 10 44", 1
    )
    parts = [table, *figures]
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


def _draw(row, path):
    """Draw the curves of a claim; the lines that show them on the page."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.2, 3.7), layout="constrained")
    for label, (x, y) in row["curves"].items():
        ax.plot(x, y, label=label, marker="." if len(x) < 20 else "")
    ax.set(xlabel=row["axes"][0], ylabel=row["axes"][1], title=row["where"])
    for k, scale in enumerate((ax.set_xscale, ax.set_yscale)):
        values = [v for curve in row["curves"].values() for v in curve[k] if v]
        if min(values) > 0 and max(values) > _WIDE * min(values):
            scale("log")
    ax.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    said = f"{row['where']}: {row['axes'][1]} against {row['axes'][0]}."
    return (
        f".. image:: generated/papers/{path.name}\n"
        f"   :width: 48%\n   :class: half\n   :alt: {said}\n"
    )
