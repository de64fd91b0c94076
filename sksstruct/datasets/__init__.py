"""Real data, read from files or fetched, and generators.

Sentences: `_conll.py`, with its reader in `_conll_reader.py`. Factor graphs: `_uai.py`,
`_ergo.py`, `_wcsp.py` with `_keywords.py`, `_cfn.py` and `_fg.py` read files by
`_text.py` (bytes), `_tokens.pyx` (numbers) and `_scan.pyx` (scopes and tables), and
collect factors in `_parts.py`. All other files load or generate one data set each;
`_fetch.py` finds and downloads files.
"""

from typing import TYPE_CHECKING

from sksstruct.utils._lazy import lazy_names

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

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_alignment": ["load_cmu_house", "load_hansards"],
            "_cfn": ["load_cfn"],
            "_clutter": ["make_digit_clutter"],
            "_conll": ["fetch_conll2000", "read_conll"],
            "_digits": ["load_digit_strings"],
            "_ergo": ["load_ergo"],
            "_fg": ["dump_fg", "load_fg"],
            "_generators": ["make_chain", "make_segments"],
            "_horses": ["load_weizmann_horses"],
            "_multilabel": ["load_multilabel"],
            "_ocr": ["fetch_ocr_letters"],
            "_stick_figures": ["make_stick_figures"],
            "_uai": [
                "dump_uai",
                "dump_uai_evidence",
                "dump_uai_solution",
                "load_uai",
                "load_uai_evidence",
                "load_uai_solution",
            ],
            "_wcsp": ["dump_wcsp", "load_wcsp"],
        },
    )
