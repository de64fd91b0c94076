"""The gallery: the order of the examples, and which of them need data."""

import re
from pathlib import Path

from sksstruct.datasets._fetch import get_data_home

# What a newcomer needs first; each group goes from the simple to the special.
ORDER = (
    # sequences, images, and sets of labels
    "plot_digit_strings",
    "plot_masks",
    "plot_label_pairs",
    # words
    "plot_entities",
    "plot_unseen_words",
    # more from the same models: probabilities, alpha, solvers
    "plot_crf_probabilities",
    "plot_active_learning",
    "plot_path",
    "plot_solvers",
    # scores that are given, models and scores of one's own
    "plot_map",
    "plot_own_model",
    "plot_recurrent_scores",
    # other structures
    "plot_segments",
    "plot_gesture_phases",
    "plot_dependencies",
    "plot_digit_clutter",
    "plot_stick_figures",
    "plot_horses",
    "plot_word_alignment",
    "plot_keypoints",
)
# Files below the data folder, which the library cannot fetch.
_DATA = {
    "plot_horses": "weizmann_horses64.npz",
    "plot_word_alignment": "matching/hansards_test.tsv.gz",
    "plot_keypoints": "matching/cmu_house_hotel.npz",
}


def position(path):
    """Place of an example in the gallery; called by sphinx-gallery.

    Parameters
    ----------
    path : str
        Name or path of an example, or of a module that examples import.

    Returns
    -------
    position : int
        Rank among the examples.

    Raises
    ------
    ValueError
        If it is an example without a place.
    """
    name = Path(path).stem
    # modules that examples import have no page
    return ORDER.index(name) if name.startswith("plot_") else len(ORDER)


def left_out():
    """What the gallery ignores: imported modules, and examples without their data.

    Returns
    -------
    pattern : str
        Regular expression for paths.
    """
    missing = [
        name for name, file in _DATA.items() if not (get_data_home() / file).is_file()
    ]
    return "|".join([r"\b_\w+\.py$", *map(re.escape, missing)])
