"""The names of python-crfsuite and sklearn-crfsuite, for programs that use them.

``import sksstruct.crfsuite as pycrfsuite`` is enough for most programs. A `Tagger`
reads model files where they are, and needs neither SciPy nor scikit-learn, not even
NumPy; these are imported by a `Trainer` that trains, and by `CRF`.
"""

from typing import TYPE_CHECKING

from sksstruct.crfsuite._tagger import CRFSUITE_VERSION, ItemSequence, ModelInfo, Tagger
from sksstruct.crfsuite._trainer import Trainer, TrainingLog
from sksstruct.utils._lazy import lazy_names

__all__ = [
    "CRF",
    "CRFSUITE_VERSION",
    "ItemSequence",
    "ModelInfo",
    "Tagger",
    "Trainer",
    "TrainingLog",
]

if TYPE_CHECKING:
    from sksstruct.crfsuite._crf import CRF
else:
    __getattr__, __dir__ = lazy_names(__name__, {"_crf": ["CRF"]})
