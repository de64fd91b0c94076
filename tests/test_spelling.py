"""Texts and sources use the US spelling."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("sksstruct", "doc", "examples", "tests", "benchmarks")
SUFFIXES = {".py", ".pyx", ".pxd", ".rst", ".md"}
# Written by a build of the documentation.
BUILT = {"_build", "auto_examples", "generated", "gen_modules"}
# The name of a page, which is part of its address, and a color map of matplotlib.
KEPT = ("regularisation_path", "Greys")
# What comes before -ise, -isation, ...
STEMS = (
    "capital|categor|character|custom|discret|emphas|factor|final|general|initial|"
    "linear|local|maxim|memor|minim|normal|optim|organ|parallel|parameter|parametr|"
    "penal|prior|quant|random|recogn|regular|serial|special|stabil|standard|summar|"
    "symmetr|synchron|token|util|vector|visual"
)
WORDS = (
    "analys(?:e|es|ed|ing)|artefact|behaviour|catalogue|centr(?:e|es|ed|ing)|colour|"
    "favour|grey|honour|judgement|label(?:led|ling)|learnt|(?:kilo|milli)?metres?|"
    "model(?:led|ling)|neighbour|whilst"
)
BRITISH = re.compile(
    rf"[a-z]*(?:{STEMS})is(?:e[a-z]?|ing|ations?|able)|(?:{WORDS})(?:s|ed|ing|hood)?",
    re.IGNORECASE,
)


def british(text):
    """Words of a text that are not spelled in the US way."""
    for kept in KEPT:
        text = text.replace(kept, "")
    words = sorted(set(re.findall("[A-Za-z]+", text)))
    return [word for word in words if BRITISH.fullmatch(word)]


def sources():
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and not BUILT & set(path.parts):
                yield path


def test_british_words_are_found():
    text = "un_minimised Colours, greyish, grey, regularisation; labelled"
    expected = ["Colours", "grey", "labelled", "minimised", "regularisation"]
    assert british(text) == expected
    assert british("a precise exercise: raise, otherwise, colormap, diameter") == []


@pytest.mark.slow
def test_spelling():
    if not (ROOT / "doc").is_dir():
        pytest.skip("not a source checkout")
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in sources()
        if path != Path(__file__).resolve()
        for word in british(path.read_text(encoding="utf-8"))
    }
    assert not found
