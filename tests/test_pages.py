"""The examples of the documentation's pages run, each page in a folder of its own."""

import doctest
import runpy
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


def test_broken_links_are_found(tmp_path, capsys):
    script = PAGES / "_links.py"
    if not script.is_file():
        pytest.skip("not a source checkout")
    check = runpy.run_path(str(script))["main"]
    (tmp_path / "guide").mkdir()
    other = tmp_path / "guide" / "other page.html"
    other.write_text('<p id="here">x</p><a href="http://a.org/b">y</a>')
    index = tmp_path / "index.html"
    good = (
        '<a href="guide/other%20page.html#here">x</a> <a href="#">up</a> '
        '<a href="guide/other%20page.html?q=1">x</a> <a href="http://a.org/b">y</a>'
    )
    index.write_text(good)
    assert check(tmp_path) == 0
    assert capsys.readouterr().out == "2 pages, 5 links, 1 of them to other sites\n"
    listed = (tmp_path / "external_links.txt").read_text()
    assert listed == "http://a.org/b 2 guide/other page.html\n"
    for bad, complaint in (
        ('<a href="guide/none.html">x</a>', "guide/none.html, which is not there"),
        ('<img src="none.png">', "none.png, which is not there"),
        ('<a href="../out.html">x</a>', "../out.html, which is not there"),
        ('<a href="guide/other%20page.html#there">x</a>', "no such anchor"),
        ('<p id="one"></p><p id="one"></p>', "the anchor one 2 times"),
        ('<a href="https://a.org/b/">x</a>', "one address: http://a.org/b, https://"),
    ):
        index.write_text(good + bad)
        assert check(tmp_path) == 1
        out = capsys.readouterr().out.splitlines()
        assert len(out) == 2 and complaint in out[0], bad


def test_pages_are_found():
    if not PAGES.is_dir():
        pytest.skip("not a source checkout")
    assert {
        "coming_from/crfsuite",
        "get_started/first_tagger",
        "how_to/service",
    } <= set(pages())
