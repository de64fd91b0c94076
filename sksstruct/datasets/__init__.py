"""Real data, read from files or fetched, and generators."""

from sksstruct.datasets._conll import fetch_conll2000, read_conll
from sksstruct.datasets._digits import load_digit_strings
from sksstruct.datasets._generators import make_chain
from sksstruct.datasets._ocr import fetch_ocr_letters

__all__ = [
    "fetch_conll2000",
    "fetch_ocr_letters",
    "load_digit_strings",
    "make_chain",
    "read_conll",
]
