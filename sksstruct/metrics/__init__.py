"""Scores of predicted structures, and scorers for model selection.

The scorers are for the ``scoring`` argument of scikit-learn, whose own scorers, such as
"accuracy", refuse lists of label sequences.

Sequences: `_sequence.py` scores positions, `_chunk_scores.py` and `_chunk_matches.py`
chunks that `_chunks.py` reads, and `_offsets.py` converts labels and spans of
characters. The other files have measures of one kind of output: `_boxes.py`,
`_masks.py`, `_parts.py`, `_alignment.py`, and classes with costs, `_costs.py`.
"""

from sklearn.metrics import make_scorer

from sksstruct.metrics._alignment import alignment_error_rate
from sksstruct.metrics._boxes import (
    box_accuracy_score,
    box_average_precision_score,
    box_overlap_score,
    box_overlaps,
)
from sksstruct.metrics._chunk_matches import chunk_match_scores
from sksstruct.metrics._chunk_scores import (
    chunk_classification_report,
    chunk_f1_score,
    chunk_precision_recall_fscore,
    chunk_precision_score,
    chunk_recall_score,
)
from sksstruct.metrics._chunks import convert_labels, iter_chunks
from sksstruct.metrics._costs import make_cost_scorer, mean_cost
from sksstruct.metrics._masks import mask_iou_score
from sksstruct.metrics._offsets import labels_to_spans, spans_to_labels
from sksstruct.metrics._parts import pck_score, pcp_score
from sksstruct.metrics._sequence import (
    flat_accuracy_score,
    flat_classification_report,
    flat_f1_score,
    flat_fbeta_score,
    flat_precision_score,
    flat_recall_score,
    sequence_accuracy_score,
    token_accuracy_score,
)

# The API page shows these descriptions.
#: Scorer: the negative :func:`alignment_error_rate`.
alignment_error_rate_scorer = make_scorer(alignment_error_rate, greater_is_better=False)
#: Scorer: :func:`box_accuracy_score`, the fraction of objects that were localized.
box_accuracy_scorer = make_scorer(box_accuracy_score)
#: Scorer: :func:`box_overlap_score`, the mean overlap of predicted and true boxes.
box_overlap_scorer = make_scorer(box_overlap_score)
#: Scorer: :func:`chunk_f1_score`, the F1 of whole chunks, in any scheme of labels.
chunk_f1_scorer = make_scorer(chunk_f1_score)
#: Scorer: :func:`chunk_f1_score`, averaged over the types with equal weights.
chunk_f1_macro_scorer = make_scorer(chunk_f1_score, average="macro")
#: Scorer: :func:`chunk_f1_score`, averaged over the types by their numbers of chunks.
chunk_f1_weighted_scorer = make_scorer(chunk_f1_score, average="weighted")
#: Scorer: :func:`chunk_precision_score`, the precision of whole chunks.
chunk_precision_scorer = make_scorer(chunk_precision_score)
#: Scorer: :func:`chunk_recall_score`, the recall of whole chunks.
chunk_recall_scorer = make_scorer(chunk_recall_score)
#: Scorer: :func:`flat_f1_score`, averaged over the labels with equal weights.
flat_f1_macro_scorer = make_scorer(flat_f1_score, average="macro")
#: Scorer: :func:`mask_iou_score`, averaged over the classes.
mask_iou_scorer = make_scorer(mask_iou_score)
#: Scorer: :func:`sequence_accuracy_score`, the fraction of sequences without an error.
sequence_accuracy_scorer = make_scorer(sequence_accuracy_score)
#: Scorer: :func:`token_accuracy_score`, the fraction of positions labeled correctly.
token_accuracy_scorer = make_scorer(token_accuracy_score)

__all__ = [
    "alignment_error_rate",
    "alignment_error_rate_scorer",
    "box_accuracy_score",
    "box_accuracy_scorer",
    "box_average_precision_score",
    "box_overlap_score",
    "box_overlap_scorer",
    "box_overlaps",
    "chunk_classification_report",
    "chunk_f1_macro_scorer",
    "chunk_f1_score",
    "chunk_f1_scorer",
    "chunk_f1_weighted_scorer",
    "chunk_match_scores",
    "chunk_precision_recall_fscore",
    "chunk_precision_score",
    "chunk_precision_scorer",
    "chunk_recall_score",
    "chunk_recall_scorer",
    "convert_labels",
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_macro_scorer",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "iter_chunks",
    "labels_to_spans",
    "make_cost_scorer",
    "mask_iou_score",
    "mask_iou_scorer",
    "mean_cost",
    "pck_score",
    "pcp_score",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "spans_to_labels",
    "token_accuracy_score",
    "token_accuracy_scorer",
]
