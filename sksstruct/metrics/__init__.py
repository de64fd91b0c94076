"""Scores of labeled sequences, and scorers for model selection."""

from sksstruct.metrics._scorers import (
    chunk_f1_scorer,
    flat_f1_macro_scorer,
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
    "chunk_f1_score",
    "chunk_f1_scorer",
    "chunk_precision_recall_fscore",
    "flat_classification_report",
    "flat_f1_macro_scorer",
    "flat_f1_score",
    "iter_chunks",
    "sequence_accuracy_score",
    "sequence_accuracy_scorer",
    "token_accuracy_score",
    "token_accuracy_scorer",
]
