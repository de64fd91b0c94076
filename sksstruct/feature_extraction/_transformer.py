"""What all transformers of sequences are for scikit-learn."""

from typing import Literal, Self

from sklearn.base import TransformerMixin


class SequenceTransformer(TransformerMixin, auto_wrap_output_keys=None):
    """Transformer whose result has an entry for each sequence, and is no table.

    scikit-learn makes data frames of what other transformers return. A data frame for
    each sequence, with a column for every feature, is nothing that a tagger would train
    on as it does on sparse rows.
    """

    def __init_subclass__(cls, **params):
        super().__init_subclass__(**{**params, "auto_wrap_output_keys": None})

    def set_output(self, *, transform: Literal["default"] | None = None) -> Self:
        """Accept the default output, as a pipeline asks all of its steps to do.

        Parameters
        ----------
        transform : "default" or None, default=None
            Both change nothing.

        Returns
        -------
        self : transformer
            The transformer.

        Raises
        ------
        ValueError
            For "pandas" and "polars": the message says how to make a data frame of a
            sequence.
        """
        if transform not in (None, "default"):
            raise ValueError(
                f"{type(self).__name__} returns an entry for each sequence, and no "
                f"data frame, got transform={transform!r:.80}: for a data frame of the "
                "sparse rows of one sequence, use "
                "pandas.DataFrame.sparse.from_spmatrix(X[0], "
                "columns=vectorizer.get_feature_names_out())"
            )
        return self
