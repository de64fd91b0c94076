"""Estimators with scikit-learn's interface, around models and solvers.

The modules of this package have no algorithms of inference or optimization. Data flow:
parameters -> model (`_model` of `_fitted.py`) -> model bound to X and y -> solver
(`_train.py`) -> flat weights -> fitted attributes -> predictions. In reading order:
`_fitted.py` and `_train.py`; `ssvm.py` for any model; `linear_ssvc.py`;
`chain_crf.py`, with predictions in `_chain_*.py` and mini-batches in `_stream.py`;
`segment_crf.py`; `multilabel.py`, with its trials in `_held_out.py`; `path.py` and
`path_cv.py`; `tagger.py`, `calibrated.py` and `streaming.py` around fitted taggers;
`_json.py` and `_crfsuite_*.py` for files; `lp_map.py`, which trains nothing.
"""

from sksstruct.estimators.calibrated import CalibratedTagger
from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.estimators.crfsuite import crfsuite_parameters
from sksstruct.estimators.cross_val import cross_val_proba
from sksstruct.estimators.linear_ssvc import LinearSSVC
from sksstruct.estimators.lp_map import LPMAPPredictor
from sksstruct.estimators.multilabel import MultilabelPairwise
from sksstruct.estimators.path import SSVMPath, ssvm_path
from sksstruct.estimators.path_cv import SSVMPathCV
from sksstruct.estimators.segment_crf import SegmentCRF
from sksstruct.estimators.ssvm import SSVMClassifier
from sksstruct.estimators.streaming import StreamingTagger
from sksstruct.estimators.tagger import Tagger, make_tagger

__all__ = [
    "CalibratedTagger",
    "ChainCRF",
    "LPMAPPredictor",
    "LinearSSVC",
    "MultilabelPairwise",
    "SSVMClassifier",
    "SSVMPath",
    "SSVMPathCV",
    "SegmentCRF",
    "StreamingTagger",
    "Tagger",
    "crfsuite_parameters",
    "cross_val_proba",
    "make_tagger",
    "ssvm_path",
]
