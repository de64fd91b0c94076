"""From tokens and measurements to feature rows.

Tokens become attributes (lists of strings) in `_helpers.py` and `_columns.py`, with
more attributes from `_lexical.py` and its subclasses `_clusters.py`,
`_word_clusters.py` and `_gazetteers.py`. `_vectorizer.py` and `_hasher.py` turn
attributes into sparse rows by the loop in `_collect.pyx`: its features get columns in
`_vocabulary.pyx` or `_hashed.pyx`, and form CSR rows in `_rows.pyx`. `_word_vectors.py`
and `_series.py` return dense rows, `_arcs.py` rows of arcs of dependency trees.
"""

from typing import TYPE_CHECKING

from sksstruct.utils._lazy import lazy_names

__all__ = [
    "ArcVectorizer",
    "ClusterFeatures",
    "ColumnFeatures",
    "GazetteerFeatures",
    "RowTransformer",
    "SequenceHasher",
    "SequenceVectorizer",
    "SeriesFeatures",
    "WordClusters",
    "WordVectors",
    "affix_features",
    "morphology_features",
    "read_word_vectors",
    "sequences_from_table",
    "shape_features",
    "window_features",
]

if TYPE_CHECKING:
    from sksstruct.feature_extraction._arcs import ArcVectorizer
    from sksstruct.feature_extraction._clusters import ClusterFeatures
    from sksstruct.feature_extraction._columns import ColumnFeatures
    from sksstruct.feature_extraction._gazetteers import GazetteerFeatures
    from sksstruct.feature_extraction._hasher import SequenceHasher
    from sksstruct.feature_extraction._helpers import (
        affix_features,
        morphology_features,
        shape_features,
        window_features,
    )
    from sksstruct.feature_extraction._long_table import sequences_from_table
    from sksstruct.feature_extraction._row_transformer import RowTransformer
    from sksstruct.feature_extraction._series import SeriesFeatures
    from sksstruct.feature_extraction._vector_files import read_word_vectors
    from sksstruct.feature_extraction._vectorizer import SequenceVectorizer
    from sksstruct.feature_extraction._word_clusters import WordClusters
    from sksstruct.feature_extraction._word_vectors import WordVectors
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_arcs": ["ArcVectorizer"],
            "_clusters": ["ClusterFeatures"],
            "_columns": ["ColumnFeatures"],
            "_gazetteers": ["GazetteerFeatures"],
            "_hasher": ["SequenceHasher"],
            "_helpers": [
                "affix_features",
                "morphology_features",
                "shape_features",
                "window_features",
            ],
            "_long_table": ["sequences_from_table"],
            "_row_transformer": ["RowTransformer"],
            "_series": ["SeriesFeatures"],
            "_vector_files": ["read_word_vectors"],
            "_vectorizer": ["SequenceVectorizer"],
            "_word_clusters": ["WordClusters"],
            "_word_vectors": ["WordVectors"],
        },
    )
