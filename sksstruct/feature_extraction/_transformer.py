"""Base of all transformers of sequences: no output as data frames."""

from typing import Literal, Self

from sklearn.base import TransformerMixin


class SequenceTransformer(TransformerMixin, auto_wrap_output_keys=None):
    """Transformer whose result has an entry for each sequence, and is not a table.

    scikit-learn can convert the output of other transformers to data frames, but not
    that of transformers of sequences: a data frame for each sequence, with a column for
    every feature, would be far slower for a tagger than sparse rows.
    """

    def __init_subclass__(cls, **params):
        super().__init_subclass__(**{**params, "auto_wrap_output_keys": None})

    def set_output(self, *, transform: Literal["default"] | None = None) -> Self:
        """Accept only the default output; `Pipeline.set_output` calls this method.

        Parameters
        ----------
        transform : "default" or None, default=None
            Neither value changes anything.

        Returns
        -------
        self : transformer
            The transformer.

        Raises
        ------
        ValueError
            For "pandas" and "polars": the message says how to convert the rows of a
            sequence to a data frame.
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
