import numpy as np
import pytest

from sksstruct.feature_extraction import (
    ColumnFeatures,
    sequences_from_table,
    window_features,
)

COLUMNS = {
    "sentence": [7, 7, 3, 3, 3],
    "word": ["He", "ran", "So", "did", "she"],
    "size": [2, 3, 2, 3, 3],
    "tag": ["P", "V", "R", "V", "P"],
}
X = [
    [{"word": "He", "size": 2}, {"word": "ran", "size": 3}],
    [{"word": "So", "size": 2}, {"word": "did", "size": 3}, {"word": "she", "size": 3}],
]
Y = [["P", "V"], ["R", "V", "P"]]


def as_records(columns):
    dtypes = [(name, np.asarray(values).dtype) for name, values in columns.items()]
    return np.array(list(zip(*columns.values(), strict=True)), dtype=dtypes)


def as_pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def as_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def as_arrays(columns):
    return {name: np.asarray(values) for name, values in columns.items()}


TABLES = [dict, as_arrays, as_records, as_pandas, as_polars]


@pytest.mark.parametrize("form", TABLES)
def test_forms_of_tables(form):
    table = form(COLUMNS)
    found, labels = sequences_from_table(table, "sentence", target="tag")
    assert found == X and labels == Y
    # Python's own numbers, as dicts of them are read and written fast
    assert type(found[0][0]["size"]) is int
    words, none = sequences_from_table(table, by=["sentence"], columns="word")
    assert words == [["He", "ran"], ["So", "did", "she"]] and none is None
    found, _ = sequences_from_table(table, "sentence", columns=["size"])
    assert found == [[{"size": 2}, {"size": 3}], [{"size": 2}] + [{"size": 3}] * 2]


def test_ids_that_stand_in_the_first_row_only():
    # the table of Kaggle's "ner_dataset.csv"
    pandas = pytest.importorskip("pandas")
    from io import StringIO

    text = (
        "Sentence #,Word,POS,Tag\n"
        "Sentence: 1,Iraq,NNP,B-geo\n,null,NN,O\n"
        "Sentence: 2,NA,NNP,B-org\n,left,VBD,O\n"
    )
    table = pandas.read_csv(
        StringIO(text), keep_default_na=False, na_values={"Sentence #": [""]}
    )
    with pytest.raises(
        ValueError, match="row 1 of table has no 'Sentence #': pass fill_ids"
    ):
        sequences_from_table(table, "Sentence #", target="Tag")
    words, tags = sequences_from_table(
        table, "Sentence #", columns="Word", target="Tag", fill_ids=True
    )
    assert words == [["Iraq", "null"], ["NA", "left"]]
    assert tags == [["B-geo", "O"], ["B-org", "O"]]
    # what read_csv makes of the words by default
    table = pandas.read_csv(StringIO(text))
    with pytest.raises(
        ValueError, match=r"row 1 of table has no 'Word'.*keep_default_na=False"
    ):
        sequences_from_table(table, "Sentence #", fill_ids=True)
    with pytest.raises(ValueError, match="row 0 of table has no 'Sentence #'"):
        sequences_from_table(table[1:], "Sentence #", fill_ids=True)


def test_rows_that_are_not_contiguous():
    table = {"doc": [1, 1, 2, 2], "s": [0, 1, 0, 1], "w": list("abcd")}
    with pytest.raises(ValueError, match=r"s 0 ended at row 0 and continues at row 2"):
        sequences_from_table(table, "s")
    words, _ = sequences_from_table(table, ["doc", "s"], columns="w")
    assert words == [["a"], ["b"], ["c"], ["d"]]
    words, _ = sequences_from_table(table, "s", columns="w", contiguous=False)
    assert words == [["a", "c"], ["b", "d"]]


def test_missing_values():
    pandas = pytest.importorskip("pandas")
    for missing in (
        None,
        float("nan"),
        pandas.NA,
        pandas.NaT,
        np.datetime64("NaT", "s"),
    ):
        table = {"s": [1, missing], "w": ["a", "b"], "y": ["A", missing]}
        _, y = sequences_from_table(table, "s", target="y", fill_ids=True)
        assert y == [["A", None]]
        with pytest.raises(
            ValueError, match="row 1 of table has no 'y': fill missing values"
        ):
            sequences_from_table(table, "w", columns="y")


def test_edges():
    assert sequences_from_table({"s": [], "w": []}, "s") == ([], None)
    assert sequences_from_table({"s": [1, 1, 2]}, "s") == ([[{}, {}], [{}]], None)
    # the id may be a feature as well
    assert sequences_from_table({"s": ["a"]}, "s", columns="s")[0] == [["a"]]


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (3, {"by": "s"}, TypeError, "table is a int"),
        ([{"s": 1}], {"by": "s"}, TypeError, "table is a list"),
        (np.zeros(3), {"by": "s"}, TypeError, "table is a ndarray"),
        ({"s": [1]}, {"by": []}, ValueError, "by is empty"),
        (
            {"s": [1]},
            {"by": "q"},
            ValueError,
            r"no column 'q'; its columns are \['s'\]",
        ),
        ({"s": [1]}, {"by": "s", "target": "y"}, ValueError, "no column 'y'"),
        ({"s": [1]}, {"by": "s", "columns": ["w"]}, ValueError, "no column 'w'"),
        ({"s": [1], "w": []}, {"by": "s"}, ValueError, "differ in length"),
    ],
    ids=str,
)
def test_errors(table, options, error, message):
    with pytest.raises(error, match=message):
        sequences_from_table(table, **options)


def test_a_name_of_two_columns():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[1, "a", "b"]], columns=["s", "w", "w"])
    with pytest.raises(ValueError, match="two columns 'w'"):
        sequences_from_table(table, "s")


def test_column_features_of_a_table():
    # the order of the columns of another table does not matter
    table = {name: COLUMNS[name] for name in ("sentence", "word", "tag")}
    found, _ = sequences_from_table(table, "sentence")
    features = ColumnFeatures("U0:%x[-1,0]/%x[0,1]").fit(found)
    assert features.n_columns_ == 2 and features.column_names_ == ["word", "tag"]
    expected = [["U0:_B-1/P"], ["U0:He/V"]]
    assert features.transform(found)[0] == expected
    turned = [[{"tag": row["tag"], "word": row["word"]} for row in found[0]], []]
    assert features.transform(turned) == [expected, []]
    columns = {name: [row[name] for row in found[1]] for name in ("word", "tag")}
    assert (
        features.transform([tuple(columns.values())]) == features.transform(found)[1:]
    )
    templates = [[("word", -1), ("tag", 0)]]
    assert window_features(found[1], templates) == window_features(columns, templates)
    words, _ = sequences_from_table(table, "sentence", columns="word")
    alone = ColumnFeatures("U0:%x[-1,0]")
    assert alone.fit_transform([*words, []])[0] == [["U0:_B-1"], ["U0:He"]]
    assert alone.column_names_ is None and alone.n_columns_ == 1


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ([{"word": "a", "tag": 3}], r"X\[0\]\['tag'\]\[0\] must be a string, got 3"),
        ([{"word": "a"}], r"X\[0\]\[0\] has the columns \['word'\], expected"),
        ([{"word": "a", "pos": "b"}], r"X\[0\]\[0\] has the columns \['word', 'pos'\]"),
        ([{"word": "a", "tag": "b"}, "c"], r"X\[0\]\[1\] must be a dict"),
        (["a", "b"], r"X\[0\]\[0\] must be a dict"),
    ],
)
def test_what_is_no_sentence_of_a_table(sentence, message):
    features = ColumnFeatures().fit([[{"word": "a", "tag": "b"}]])
    with pytest.raises((TypeError, ValueError), match=message):
        features.transform([sentence])


def test_window_features_say_what_to_pass():
    for wrong in (["a", "b"], [[{"w": "a"}]], []):
        with pytest.raises(TypeError, match=r"columns of one sequence.*\{'w': words\}"):
            window_features(wrong, [[("w", 0)]])
    with pytest.raises(ValueError, match=r"columns\[1\] has the columns"):
        window_features([{"w": "a"}, {"v": "a"}], [[("w", 0)]])
