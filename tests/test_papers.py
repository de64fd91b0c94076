"""The claims of the papers at small sizes: those that must hold there do."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "papers"
RESULTS = Path(__file__).parents[1] / "doc" / "papers"
NAMES = ("gap_bcfw", "bmrm_pragam", "gdmm_map", "gdmm_learning", "casimir")
# Small sizes of these take longest, and tell nothing that the others do not.
LONG = {("casimir", f"Fig. {k}") for k in ("2", "6", "7 (a)", "7 (b)", "7 (c)")}


@pytest.fixture(scope="module")
def load():
    """Import a script, and forget it and its helpers afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    yield lambda name: importlib.import_module(name).PAPER
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - before:
        if str(FOLDER.parent) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def must_hold():
    """Names of papers and places of the claims that small sizes test."""
    for name in NAMES:
        text = (FOLDER / f"{name}.py").read_text()
        assert "PAPER.claim" in text
        yield name


@pytest.mark.slow
@pytest.mark.parametrize("name", must_hold() if FOLDER.is_dir() else ())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_claims_at_small_size(name, load):
    paper = load(name)
    assert len({claim.where for claim in paper.claims}) == len(paper.claims)
    short = [c.where for c in paper.claims if (name, c.where) not in LONG]
    required = {claim.where for claim in paper.claims if claim.small and claim.run}
    assert required
    for row in paper.results(False, short):
        assert (row["saw"] or row["why"]).endswith(".")
        if row["where"] in required:
            assert row["verdict"] == "holds", (row["where"], row["saw"])


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_results_of_all_claims(name, load):
    if not RESULTS.is_dir():
        pytest.skip("not a source checkout")
    record = json.loads((RESULTS / f"{name}.json").read_text())
    assert record["size"] == "full"
    found = {row["where"]: row for row in record["claims"]}
    paper = load(name)
    assert list(found) == [claim.where for claim in paper.claims]
    for claim in paper.claims:
        row = found[claim.where]
        assert row["says"] == claim.says
        assert (row["verdict"] == "cannot be tested") == (claim.run is None)
        assert bool(row["why"]) == (row["verdict"] != "holds")
        for x, y in row.get("curves", {}).values():
            assert len(x) == len(y) > 0


@pytest.mark.parametrize("name", NAMES)
def test_what_was_read_is_written_as_it_was(name, load):
    if not RESULTS.is_dir():
        pytest.skip("not a source checkout")
    load(name)
    text = (RESULTS / f"{name}.json").read_text()
    record = json.loads(text)
    as_text = importlib.import_module("_claims").as_text
    assert as_text(record) == text
    # a claim is a line, whatever its curves are
    assert len(text.splitlines()) == len(record) + len(record["claims"]) + 1


def test_results_of_other_claims_are_kept(load, tmp_path):
    from_claims = importlib.import_module("_claims")
    paper = from_claims.Paper("none", "Nobody, Nothing")

    for fig, x in (("Fig. 1", 1.0 / 3.0), ("Fig. 2", np.float64(np.inf))):

        @paper.claim(fig, "One is one.")
        def figure(full, x=x):
            return from_claims.Outcome(1, "It is.", [{"n": x}])

    rows = list(paper.results(False))
    paper.write(tmp_path, rows, False)
    text = (tmp_path / "none.json").read_text()
    paper.write(tmp_path, rows[:1], False)
    assert (tmp_path / "none.json").read_text() == text
    kept = json.loads(text)["claims"]
    assert [row["rows"] for row in kept] == [[{"n": 0.33333}], [{"n": None}]]


def test_a_claim_that_does_not_hold_is_told(load):
    from_claims = importlib.import_module("_claims")
    paper = from_claims.Paper("none", "Nobody, Nothing")

    for held in range(3):

        @paper.claim(f"Fig. {held}", "One is two.")
        def figure(full, held=held):
            rows = [{"n": np.float64(1)}]
            return from_claims.Outcome(held, "It is.", rows, of=2, why="It is not.")

    paper.untestable("Fig. 9", "The rest.", "There is none.")
    rows = list(paper.results(False))
    said = "does not hold", "holds on 1 of 2", "holds", "cannot be tested"
    assert tuple(row["verdict"] for row in rows) == said
    whys = "It is not.", "It is not.", "", "There is none."
    assert tuple(row["why"] for row in rows) == whys
    assert json.loads(json.dumps(from_claims.rounded(rows)))[0]["rows"] == [{"n": 1.0}]

    @paper.claim("Fig. 3", "Nothing says why.")
    def silent(full):
        return from_claims.Outcome(False, "It is not.")

    with pytest.raises(ValueError, match="nothing says why"):
        list(paper.results(False))


def test_clear_differences_are_two_standard_deviations(load):
    clearly = importlib.import_module("_claims").clearly
    # mean 3 and standard deviation 1
    values = [2.0, 2.0, 3.0, 4.0, 4.0]
    assert clearly(values, 0.99) and not clearly(values, 1.01)
    assert clearly([1.0] * 5) and not clearly([0.0] * 5)
