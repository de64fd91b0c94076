"""The classes of python-crfsuite and sklearn-crfsuite, for programs that use these.

Most programs need no other change than ``import sksstruct.crfsuite as pycrfsuite``.
Tagging imports neither NumPy nor SciPy nor scikit-learn; `Trainer.train` and `CRF` do.

_attributes  names and values of the attributes of items
_file        the bytes of a model file: labels, transitions, look-up of attributes
_scores      scores of a sentence, its best labels and marginals
_tagger      `Tagger` and `ItemSequence`, which use the three modules above
_trainer     `Trainer`, which calls `_fit` to train
_crf         `CRF`, an estimator that uses `Trainer` and `Tagger`
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
