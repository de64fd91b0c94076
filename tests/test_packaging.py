"""What travels: sdist and wheel contain what they should, and install alone."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not (ROOT / "MANIFEST.in").is_file():
        pytest.skip("not a source checkout")
    if kept := os.environ.get("SKSSTRUCT_DIST"):  # for the tests with bounds checks
        folder = Path(kept)
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "-o", str(folder)]
    run = [*command, "--sdist", str(ROOT)]
    subprocess.run(run, check=True, capture_output=True)
    (sdist,) = folder.glob("*.tar.gz")
    # A wheel built from the sdist: what the sdist lacks, the wheel cannot have. With
    # bounds checks, which compile sooner: the release flags have built what runs here.
    source = tmp_path_factory.mktemp("source")
    shutil.unpack_archive(sdist, source)
    run = subprocess.run(
        [*command, "--wheel", str(next(source.iterdir()))],
        env={**os.environ, "SKSSTRUCT_DEBUG_CYTHON": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    # Cython's hints name calls that take the GIL in loops without it, and here also
    # the bounds checks.
    lines = (run.stdout + run.stderr).splitlines()
    hints = [line for line in lines if "performance hint" in line]
    assert not [line for line in hints if "boundscheck(False)" not in line]
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def test_sdist_contents(built):
    with tarfile.open(built[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    for path in ROOT.joinpath("sksstruct").rglob("*"):
        if path.suffix in (".py", ".pyx", ".pxd", ".h", ".typed"):
            assert str(path.relative_to(ROOT)) in names
    for name in ("LICENSE", "README.md", "SECURITY.md", "setup.py", "pyproject.toml",
                 "Makefile", "tests/reference.py", "examples/plot_digit_strings.py",
                 "doc/conf.py", "benchmarks/bench_ocr.py"):  # fmt: skip
        assert name in names
    bad = [
        n for n in names if n.endswith((".c", ".so", ".html", ".pyc", ".npz", ".gz"))
    ]
    # the example of a page, and nothing that Cython has written
    assert bad == ["doc/how_to/deploy/tag.c"]


def test_sdist_is_reproducible(built, tmp_path):
    """With a date, in two builds at different times and of files with other dates."""
    made, copy = [], tmp_path / "copy"
    with tarfile.open(built[0]) as archive:
        archive.extractall(copy, filter="data")
    (source,) = copy.iterdir()
    for folder in "first", "second":
        run = [sys.executable, "-m", "build", "--sdist", "-o", str(tmp_path / folder)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run([*run, str(source)], env=environment, check=True)
        (sdist,) = (tmp_path / folder).iterdir()
        made.append(sdist.read_bytes())
        source.joinpath("README.md").touch()
    assert made[0] == made[1]


def test_wheel_contents(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = archive.namelist()
    for name in ("protocols/_bound_model.pxd", "chain/_chain.pxd"):
        assert f"sksstruct/models/{name}" in names
    for name in ("_simd.h", "_simd_common.h", "_simd.pxd"):
        assert f"sksstruct/utils/{name}" in names
    assert "sksstruct/py.typed" in names
    assert any(
        name.startswith("sksstruct/solvers/frank_wolfe/_bcfw.") for name in names
    )
    bad = [n for n in names if n.endswith((".c", ".html", ".pyx"))]
    bad += [n for n in names if n.split("/")[0] in ("tests", "doc", "examples")]
    assert not bad


def test_wheel_installs_alone(built, tmp_path):
    """In a clean environment, away from the sources: import, train, predict."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    if not python.exists():
        python = tmp_path / "env" / "Scripts" / "python.exe"
    install = [python, "-m", "pip", "install", "-q", built[1]]
    subprocess.run(install, check=True, capture_output=True)
    code = (
        "import sksstruct, pathlib; from sksstruct import ChainCRF; "
        "X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [['a', 'b'], ['b', 'a']]; "
        "assert ChainCRF(0.1).fit(X, y).score(X, y) == 1; print(sksstruct.__file__)"
    )
    run = [python, "-c", code]
    out = subprocess.run(run, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert str(tmp_path / "env") in out.stdout
