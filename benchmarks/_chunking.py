"""CoNLL-2000 chunking, as the papers' scripts among the examples read it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "examples" / "papers"))

from _data import chunking_data, chunking_features

__all__ = ["chunking_data", "chunking_features"]
