"""Scorers, for the ``scoring`` argument of scikit-learn's model selection.

scikit-learn's own names ("accuracy") refuse lists of label sequences.
"""

from sklearn.metrics import make_scorer

from sksstruct.metrics._alignment import alignment_error_rate
from sksstruct.metrics._boxes import box_accuracy_score, box_overlap_score
from sksstruct.metrics._masks import mask_iou_score
from sksstruct.metrics._sequence import (
    chunk_f1_score,
    flat_f1_score,
    sequence_accuracy_score,
    token_accuracy_score,
)

token_accuracy_scorer = make_scorer(token_accuracy_score)
sequence_accuracy_scorer = make_scorer(sequence_accuracy_score)
chunk_f1_scorer = make_scorer(chunk_f1_score)
flat_f1_macro_scorer = make_scorer(flat_f1_score, average="macro")
alignment_error_rate_scorer = make_scorer(alignment_error_rate, greater_is_better=False)
box_accuracy_scorer = make_scorer(box_accuracy_score)
box_overlap_scorer = make_scorer(box_overlap_score)
mask_iou_scorer = make_scorer(mask_iou_score)
