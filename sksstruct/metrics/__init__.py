"""Scores of predicted structures, and scorers for model selection."""

from sksstruct.metrics._alignment import alignment_error_rate
from sksstruct.metrics._boxes import (
    box_accuracy_score,
    box_average_precision_score,
    box_overlap_score,
    box_overlaps,
)
from sksstruct.metrics._chunk_report import chunk_classification_report
from sksstruct.metrics._costs import make_cost_scorer, mean_cost
from sksstruct.metrics._masks import mask_iou_score
from sksstruct.metrics._parts import pck_score, pcp_score
from sksstruct.metrics._scorers import (
    alignment_error_rate_scorer,
    box_accuracy_scorer,
    box_overlap_scorer,
    chunk_f1_scorer,
    flat_f1_macro_scorer,
    mask_iou_scorer,
    sequence_accuracy_scorer,
    token_accuracy_scorer,
)
from sksstruct.metrics._sequence import (
    chunk_f1_score,
    chunk_precision_recall_fscore,
    flat_classification_report,
    flat_f1_score,
    iter_chunks,
    sequence_accuracy_score,
    token_accuracy_score,
)

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
    "chunk_f1_score",
    "chunk_f1_scorer",
    "chunk_precision_recall_fscore",
    "flat_classification_report",
    "flat_f1_macro_scorer",
    "flat_f1_score",
    "iter_chunks",
    "make_cost_scorer",
    "mask_iou_score",
    "mask_iou_scorer",
    "mean_cost",
    "pck_score",
    "pcp_score",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "token_accuracy_score",
    "token_accuracy_scorer",
]
