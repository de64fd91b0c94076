"""Pages are readable on a phone and for everyone: what shows without a browser."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOC = Path(__file__).parents[1] / "doc"
# Room for a picture on a phone, and where the style sheet shows others.
PHONE, WIDE, SCROLLED = 358, 640, 640
WIDTHS = {"structures": WIDE, "house": SCROLLED, "visit": SCROLLED}
SMALLEST = 7.0  # pixels of a letter's height and depth

pytestmark = pytest.mark.skipif(not DOC.is_dir(), reason="not a source checkout")


def sources(pattern):
    """Files of the documentation that are written by hand."""
    made = DOC / "generated", DOC / "auto_examples", DOC / "_build"
    for path in sorted(DOC.rglob(pattern)):
        if not any(folder in path.parents for folder in made):
            yield path


def smallest_letters(picture, width):
    """Size of the smallest text of a picture that is as wide as this."""
    root = ElementTree.fromstring(picture)
    sizes = [element.get("font-size") for element in root.iter()]
    return (
        min(float(size) for size in sizes if size)
        * width
        / float(root.get("viewBox").split()[2])
    )


@pytest.mark.parametrize("path", sources("*.svg"), ids=lambda path: path.stem)
def test_pictures_are_readable(path):
    picture = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(picture)
    assert root.get("viewBox") and root.get("width") is None
    assert root[0].tag.endswith("title") and root[0].text
    assert smallest_letters(picture, WIDTHS.get(path.stem, PHONE)) >= SMALLEST


def literal_tables(text):
    """First lines of literal blocks in which three lines have the same columns."""
    for block in re.findall(r"::\n\n((?:  +\S.*\n)+)", text):
        lines = block.splitlines()
        places = [{m.end() for m in re.finditer(r"\S  +", line)} for line in lines]
        if len(lines) > 2 and len(set.intersection(*places)) > 1:
            yield lines[0]


def bullets(text):
    """Rows of tables with a lone hyphen, which would be a bullet."""
    return re.findall(r"^\S.*  -(?:  .*)?$", text, re.MULTILINE)


def test_tables_are_tables():
    for path in sources("*.rst"):
        text = path.read_text(encoding="utf-8")
        assert not list(literal_tables(text)), path
        assert not bullets(text), path


def test_other_tables_are_found():
    assert list(
        literal_tables("Seconds::\n\n  a    b  c\n  1.0  2  3\n  1.1  4  5\n\n")
    )
    assert not list(literal_tables("Code::\n\n  x = 1  # one\n  y = 2\n  z = 3\n\n"))
    table = "==  ==\na   b\n==  ==\n1   {}\n2   3\n==  ==\n"
    assert bullets(table.format("-"))
    assert not bullets(table.format("\\-"))


def long_code(text):
    """Lines of examples for which a page of 1280 pixels has no room."""
    lines = re.findall(r"^ *((?:>>>|\.\.\.) .*)$", text, re.MULTILINE)
    return [line for line in lines if len(line) > 88]


def test_code_is_not_clipped():
    for path in sources("*.rst"):
        assert not long_code(path.read_text(encoding="utf-8")), path


def test_first_code_is_whole_on_a_phone():
    text = (DOC / "index.rst").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:>>>|\.\.\.) .*$", text, re.MULTILINE)
    # the style sheet has room for so many letters at 360 pixels
    assert lines and max(map(len, lines)) <= 46


def test_long_code_is_found():
    assert not long_code("   >>> " + 84 * "x" + "\n")
    assert long_code("   >>> " + 85 * "x" + "\n")
