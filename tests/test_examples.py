"""Every example runs, and the README's code does what it says."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(ROOT.glob("examples/plot_*.py"))


def test_readme(monkeypatch):
    readme = ROOT / "README.md"
    if not readme.is_file():
        pytest.skip("not a source checkout")
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    namespace = runpy.run_path(str(path))
    plt.close("all")
    if path.stem == "plot_digit_strings":
        out = capsys.readouterr().out
        errors = [float(x) for x in re.findall(r"digit error +([\d.]+) %", out)]
        assert errors[1] < errors[0]  # the structure is worth learning
        assert namespace["tagger"].dual_gap_ <= 1e-3
    if path.stem == "plot_crf_probabilities":
        out = capsys.readouterr().out
        errors = [float(x) for x in re.findall(r"three digits.*: ([\d.]+) %", out)]
        assert errors[1] < errors[0]  # hints help
        said, true = np.transpose(namespace["means"])
        assert np.abs(said - true).max() < 0.15
