import os
from pathlib import Path

import hypothesis
import pytest

# No test may depend on how busy the machine is.
hypothesis.settings.register_profile("no clock", deadline=None)
hypothesis.settings.load_profile("no clock")
# The smallest test that uses it draws several figures; none needs a screen.
os.environ.setdefault("MPLBACKEND", "Agg")


def pytest_collection_modifyitems(items):
    """The longest tests first, so that none of them runs alone in the end."""
    items.sort(
        key=lambda item: ("packaging" not in item.keywords, "slow" not in item.keywords)
    )


@pytest.fixture(scope="session")
def data_home():
    """Folder of the real data sets, or a skip with the reason."""
    candidates = [os.environ.get("SKSSTRUCT_DATA"), "~/sksstruct_data"]
    candidates.append(Path(__file__).parents[2] / "shared" / "data")
    for candidate in candidates:
        if candidate:
            folder = Path(candidate).expanduser()
            if (folder / "conll2000" / "train.txt.gz").is_file():
                return folder
    pytest.skip("real data sets not found: set SKSSTRUCT_DATA to their folder")


@pytest.fixture
def callbacks():
    """The module with scikit-learn's callbacks, which came with version 1.9."""
    return pytest.importorskip("sklearn.callback", reason="scikit-learn is before 1.9")
