"""What the scripts of the papers share: claims are run, printed and written as JSON.

A script makes a `Paper`, and puts functions on its list with `Paper.claim`. Such a
function runs an experiment at a small size, or at full size, and returns an `Outcome`.
"""

import argparse
import json
import os
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Set before NumPy loads its BLAS: the seconds written are those of one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _provenance import commit, machine, versions
from sklearn.exceptions import ConvergenceWarning

HOLDS, FAILS, UNTESTABLE = "holds", "does not hold", "cannot be tested"
# Runs that differ in the order of the visits, or in the data drawn.
SEEDS = range(5)


@dataclass
class Outcome:
    """What an experiment found.

    Parameters
    ----------
    held : bool or int
        Whether the claim held, or in how many of the comparisons.
    saw : str
        What was seen, in a sentence with its figures.
    rows : list of dict
        A table, a dict a row.
    curves : dict of str to (list, list)
        Lines of a figure: abscissas and ordinates by name.
    axes : tuple of str
        What the two axes of the figure are.
    of : int
        Number of comparisons.
    why : str
        A sentence that says why the claim does not hold, or not in all comparisons.
    """

    held: int
    saw: str
    rows: list = field(default_factory=list)
    curves: dict = field(default_factory=dict)
    axes: tuple = ("effective passes", "duality gap")
    of: int = 1
    why: str = ""

    @property
    def verdict(self):
        """What the page says."""
        if self.held == self.of:
            return HOLDS
        return f"{HOLDS} on {self.held} of {self.of}" if self.held else FAILS


def clearly(values, above=0.0):
    """Whether values, one a seed, are above a number by two standard deviations."""
    values = np.asarray(values, dtype=float) - above
    return bool(values.mean() > 2.0 * values.std(ddof=1))


@dataclass
class Claim:
    """A claim of a paper: where it is, what it says, and the function that runs it.

    ``run`` is None where public data do not suffice, and ``why`` says what is missing.
    ``small`` tells whether the claim must hold at the small size too, which is what
    continuous integration asserts: an effect may need the full size to show.
    """

    where: str
    says: str
    run: object = None
    small: bool = True
    why: str = ""


class Paper:
    """The claims of one paper, and the command line that runs them.

    Parameters
    ----------
    name : str
        Name of the JSON file.
    title : str
        Authors and title.
    """

    def __init__(self, name, title):
        self.name, self.title, self.claims = name, title, []

    def claim(self, where, says, small=True):
        """Put the function on the list; it takes ``full`` and returns an `Outcome`."""

        def register(run):
            self.claims.append(Claim(where, says, run, small))
            return run

        return register

    def untestable(self, where, says, why):
        """Put a claim on the list that public data cannot test."""
        self.claims.append(Claim(where, says, why=why))

    def results(self, full, only=None):
        """Run the claims, yield a dict for each as soon as it is there."""
        for claim in self.claims:
            if only and not any(part in claim.where for part in only):
                continue
            row = {"where": claim.where, "says": claim.says}
            if claim.run is None:
                yield {**row, "verdict": UNTESTABLE, "saw": "", "why": claim.why}
                continue
            started = time.process_time()
            with warnings.catch_warnings():
                # many runs are cut off on purpose, to see where they are by then
                warnings.simplefilter("ignore", ConvergenceWarning)
                outcome = claim.run(full)
            seconds = round(time.process_time() - started, 1)
            verdict = outcome.verdict
            row.update(verdict=verdict, cpu_seconds=seconds, commit=commit())
            row.update(asdict(outcome), held=int(outcome.held))
            if verdict == HOLDS:
                row["why"] = ""
            elif not row["why"]:
                raise ValueError(f"{claim.where}: nothing says why it {verdict}")
            yield row

    def main(self):
        """Run what the command line asks for."""
        parser = argparse.ArgumentParser(description=self.title)
        parser.add_argument("--full", action="store_true", help="the full sizes")
        parser.add_argument("--only", nargs="+", help="parts of names, as 'Fig. 1'")
        parser.add_argument("--write", metavar="FOLDER", help="write JSON there")
        parser.add_argument("--data-home", help="folder of the data sets")
        options = parser.parse_args()
        if options.data_home:
            os.environ["SKSSTRUCT_DATA"] = options.data_home
        print(self.title)
        claims = []
        for row in self.results(options.full, options.only):
            claims.append(row)
            print(f"\n{row['where']}: {row['says']}")
            print(f"  {row['verdict'].upper()}: {row['saw']} {row['why']}", flush=True)
            print_rows(row.get("rows", ()))
            if options.write:
                # after each: a run that is cut off has not been in vain
                self.write(Path(options.write), claims, options.full)
        counts = Counter(row["verdict"] for row in claims)
        print("\n" + ", ".join(f"{n} {verdict}" for verdict, n in counts.items()))

    def write(self, folder, claims, full):
        """Write what was found; other claims keep what was found for them before."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        known = {}
        if path.is_file():
            known = {
                row["where"]: row for row in json.loads(path.read_text())["claims"]
            }
        known.update((row["where"], row) for row in claims)
        order = [claim.where for claim in self.claims]
        claims = [known[where] for where in order if where in known]
        record = {
            "title": self.title,
            "size": "full" if full else "small",
            "machine": machine(),
            "versions": versions(),
            "claims": claims,
        }
        path.write_text(as_text(rounded(record)))


def as_text(record):
    """The record of a paper as JSON, with a line for each claim."""
    *head, (_, claims) = record.items()
    fields = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in head)
    rows = ",\n".join(map(json.dumps, claims))
    return f'{{{fields},\n"claims": [\n{rows}\n]}}\n'


def rounded(value):
    """Copy in types of JSON, with five digits."""
    if isinstance(value, dict):
        return {str(key): rounded(v) for key, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [rounded(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        # no number of JSON is infinite
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def shown(value):
    """A cell of a table."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.3g}" if np.isfinite(value) else "-"
    return "-" if value is None else str(value)


def print_rows(rows):
    """Print dicts under a header."""
    if not rows:
        return
    cells = [[str(name) for name in rows[0]]] + [
        [shown(value) for value in r.values()] for r in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("    " + "  ".join(map(str.ljust, row, widths)))
