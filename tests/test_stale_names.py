"""Paths and dotted names in texts, comments and sources are of what exists."""

import re
from functools import cache
from pathlib import Path

import pytest
from test_spelling import FOLDERS, ROOT, sources

import sksstruct

pytestmark = pytest.mark.skipif(
    not (ROOT / "doc").is_dir(), reason="not a source checkout"
)
PACKAGE = Path(sksstruct.__file__).parent
# Paths are told from one of these.
ABOVE = ROOT, PACKAGE, ROOT / "doc"
TOPS = {*FOLDERS, *(path.name for path in PACKAGE.iterdir() if path.is_dir())}
FILE = re.compile(r"(?<![\w./<-])(?=(\w+)/)([\w/]+\.(?:pyx?|pxd|rst|md|json|h))\b")
# Examples of these tests are made up; the page is written when the pages are built.
LEFT_OUT = {"test_imports.py", Path(__file__).name, "api.rst"}
DOTTED = re.compile(r"(?<![\w\"'./])sksstruct((?:\.(?!__)\w+)+)")
# What is imported from a module: all between parentheses, or the rest of the line.
IMPORTED = re.compile(
    r"^[ >]*from sksstruct([.\w]*) c?import (?:\(([^)]*)\)|(.*))", re.M
)


def named(text):
    """Dotted names below the package in a text, each as its parts."""
    for name in DOTTED.findall(text):
        yield tuple(name[1:].split("."))
    for module, *objects in IMPORTED.findall(text):
        for name in re.findall(r"(?:^|,)\s*(\w+)", "".join(objects)):
            yield (*module[1:].split("."), name) if module else (name,)


def stale(text):
    """What a text names in the folders of the project, and is not there."""
    for top, path in FILE.findall(text):
        if top in TOPS and not any((folder / path).is_file() for folder in ABOVE):
            yield path
    for names in named(text):
        if not is_there(PACKAGE, names):
            yield ".".join(["sksstruct", *names])


@cache
def is_there(folder, names):
    """Whether a folder has a module, or its module the object, that names lead to."""
    first, others = names[0], names[1:]
    if (folder / first).is_dir():
        return not others or is_there(folder / first, others)
    found = list(folder.glob(f"{first}.p*"))
    name = others[:1]
    if not found:
        found, name = [folder / "__init__.py"], [first]
    return set().union(*map(words_of, found)).issuperset(name)


@cache
def words_of(path):
    return set(re.findall(r"\w+", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "text",
    [
        "tests/none.py", "(see `inference/map/_none.pxd`)", "sksstruct.none.x",
        "``sksstruct.solvers.core.none``", "sksstruct.NoCRF",
        "sksstruct.utils._doc.nowhere", ">>> from sksstruct import ChainCRF, NoCRF",
        "from sksstruct.utils._doc import (\n    fill_doc,\n    nowhere as x,\n)",
    ],
)  # fmt: skip
def test_stale_names_are_found(text):
    assert len(list(stale(text))) == 1


def test_names_that_exist_pass():
    text = (
        "doc/index.rst, ``tests/conftest.py::x``, utils/_doc.py, my_doc/none.py, "
        "sksstruct.utils._memory, sksstruct.ChainCRF.fit, sksstruct.solvers.core.base, "
        "sksstruct.utils._doc.fill_doc, http://a.org/doc/none.md, 'sksstruct.Mark'"
    )
    assert list(stale(text)) == []


def test_no_name_is_stale():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        if path.name not in LEFT_OUT
        for name in stale(path.read_text(encoding="utf-8"))
    }
    assert not found
