"""The metadata tell the truth."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import sksstruct

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@pytest.fixture
def project():
    return tomllib.loads(PYPROJECT.read_text())["project"]


def test_version(project):
    assert sksstruct.__version__ == project["version"]


def test_floors_of_the_oldest_job(project):
    """The pins of `make test-floors` are the floors that are promised."""
    pins = re.findall(
        r"^(\S+)==(\S+)$", (PYPROJECT.parent / "floors.txt").read_text(), re.M
    )
    floors = {}
    for requirement in project["dependencies"]:
        name, floor = requirement.split(">=")
        floors[name] = floor
    assert dict(pins) == floors


def test_page_of_versions_names_the_floors(project):
    page = PYPROJECT.parent / "doc" / "versions.rst"
    if not page.is_file():
        pytest.skip("not a source checkout")
    rows = re.findall(r"^(\S+) +([\d.]+)$", page.read_text(encoding="utf-8"), re.M)
    floors = [each.split(">=") for each in project["dependencies"]]
    python = ["Python", project["requires-python"].removeprefix(">=")]
    assert [list(row) for row in rows] == [python, *floors]


def test_installed_versions_are_recent_enough(project):
    def number(text):
        return [int(part) for part in re.findall(r"\d+", text)[:3]]

    for requirement in project["dependencies"]:
        name, floor = requirement.split(">=")
        assert number(version(name)) >= number(floor)
