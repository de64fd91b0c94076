"""The examples of the documentation's pages run, each page in a folder of its own."""

import doctest
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "doc"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What pages need besides the hard dependencies.
NEEDED = {
    "how_to/progress_and_time": "matplotlib",
    "how_to/save_and_load": "skops",
    "how_to/tables": "pandas",
}
# Pages that use data sets, which users download.
WITH_DATA = {"tutorials/chunking"}


def pages():
    """Names of the pages that have examples."""
    built = ("_build", "auto_examples", "generated", "developers")
    for path in sorted(PAGES.rglob("*.rst")):
        name = path.relative_to(PAGES)
        if name.parts[0] not in built and ">>> " in path.read_text(encoding="utf-8"):
            yield name.with_suffix("").as_posix()


@pytest.mark.parametrize("name", pages())
def test_page(name, tmp_path, monkeypatch, request):
    if name in NEEDED and find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed")
    if name in WITH_DATA:
        monkeypatch.setenv("SKSSTRUCT_DATA", str(request.getfixturevalue("data_home")))
    monkeypatch.chdir(tmp_path)
    page = str(PAGES / f"{name}.rst")
    result = doctest.testfile(page, module_relative=False, optionflags=FLAGS)
    assert result.attempted and not result.failed


def test_pages_are_found():
    if not PAGES.is_dir():
        pytest.skip("not a source checkout")
    assert {
        "coming_from/crfsuite",
        "get_started/first_tagger",
        "how_to/service",
    } <= set(pages())
