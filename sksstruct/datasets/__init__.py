"""Real data, read from files or fetched, and generators."""

from sksstruct.datasets._alignment import load_cmu_house, load_hansards
from sksstruct.datasets._cfn import load_cfn
from sksstruct.datasets._clutter import make_digit_clutter
from sksstruct.datasets._conll import fetch_conll2000, read_conll
from sksstruct.datasets._digits import load_digit_strings
from sksstruct.datasets._ergo import load_ergo
from sksstruct.datasets._fg import dump_fg, load_fg
from sksstruct.datasets._generators import make_chain, make_segments
from sksstruct.datasets._horses import load_weizmann_horses
from sksstruct.datasets._multilabel import load_multilabel
from sksstruct.datasets._ocr import fetch_ocr_letters
from sksstruct.datasets._stick_figures import make_stick_figures
from sksstruct.datasets._uai import (
    dump_uai,
    dump_uai_evidence,
    dump_uai_solution,
    load_uai,
    load_uai_evidence,
    load_uai_solution,
)
from sksstruct.datasets._wcsp import dump_wcsp, load_wcsp

__all__ = [
    "dump_fg",
    "dump_uai",
    "dump_uai_evidence",
    "dump_uai_solution",
    "dump_wcsp",
    "fetch_conll2000",
    "fetch_ocr_letters",
    "load_cfn",
    "load_cmu_house",
    "load_digit_strings",
    "load_ergo",
    "load_fg",
    "load_hansards",
    "load_multilabel",
    "load_uai",
    "load_uai_evidence",
    "load_uai_solution",
    "load_wcsp",
    "load_weizmann_horses",
    "make_chain",
    "make_digit_clutter",
    "make_segments",
    "make_stick_figures",
    "read_conll",
]
