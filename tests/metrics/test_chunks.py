"""Chunks in all schemes of labels, against seqeval."""

import gzip
import warnings
from itertools import groupby, product

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import cross_val_score

from sksstruct import metrics
from sksstruct.estimators import make_tagger
from sksstruct.inference import scheme_transitions

TRUE = [["B-NP", "I-NP", "O", "B-VP"], ["O", "B-NP"]]
PRED = [["B-NP", "I-NP", "O", "B-NP"], ["O", "B-NP"]]
LETTERS = {"BIO": "BI", "IOB1": "BI", "IOBES": "BIES", "BILOU": "BILU"}


def random_pairs(letters, n, seed=0):
    """Labels of a scheme, most of them ill-formed, and others that are like them."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        kinds = ["X", "Y-Z", "_"][: rng.integers(1, 4)]
        tags = ["O"] * rng.integers(1, 4) + [f"{a}-{k}" for a in letters for k in kinds]
        tags += list(letters) * (rng.random() < 0.2)
        lengths = [3, *rng.integers(0, 9, size=3)]
        true = [[str(tag) for tag in rng.choice(tags, n)] for n in lengths]
        yield (
            true,
            [
                [t if rng.random() < 0.7 else str(rng.choice(tags)) for t in row]
                for row in true
            ],
        )


def random_chunks(seed=0):
    """Well-formed BIO labels."""
    rng = np.random.default_rng(seed)
    y = []
    for n in rng.integers(0, 12, size=60):
        row = []
        while len(row) < n:
            kind = rng.choice(["PER", "LOC", "X-Y"])
            length = int(rng.integers(0, 4))
            row += [f"B-{kind}"] * (length > 0) + [f"I-{kind}"] * (length - 1)
            row += ["O"] * int(rng.integers(0, 2))
        y.append([str(tag) for tag in row])
    return y


@pytest.mark.parametrize(
    ("tags", "chunks"),
    [
        ([], []),
        (["O"], []),
        (["B-A"], [("A", 0, 1)]),
        (["B-A", "B-A"], [("A", 0, 1), ("A", 1, 2)]),
        (["B-A", "I-A", "I-B"], [("A", 0, 2), ("B", 2, 3)]),
        (["I-A", "I-A", "O", "I-A"], [("A", 0, 2), ("A", 3, 4)]),
        (["B-A", "O", "I-A"], [("A", 0, 1), ("A", 2, 3)]),
        (["B-X-Y", "I-X-Y"], [("X-Y", 0, 2)]),
        (["B", "I", "O", "B"], [("_", 0, 2), ("_", 3, 4)]),
        (["B-A", "E-A", "E-A", "S-A", "I-A"],
         [("A", 0, 2), ("A", 2, 3), ("A", 3, 4), ("A", 4, 5)]),
        (["U-A", "L-A", "O", "B-A"], [("A", 0, 1), ("A", 1, 2), ("A", 3, 4)]),
    ],
    ids=str,
)  # fmt: skip
def test_chunks_as_conlleval_reads_them(tags, chunks):
    assert list(metrics.iter_chunks(tags)) == chunks


def test_part_of_a_chunk_is_not_the_chunk():
    true = [["B-PER", "I-PER", "E-PER", "O", "S-LOC"]]
    pred = [["B-PER", "I-PER", "O", "O", "O"]]
    assert metrics.chunk_f1_score(true, pred) == 0.0
    report = metrics.chunk_classification_report(true, true, output_dict=True)
    assert report["all"]["support"] == report["LOC"]["support"] + 1 == 2


def all_scores(true, pred, scheme="auto", strict=False, average="micro"):
    """Precision, recall and F1, by the function of all and by those of each."""
    given = {"scheme": scheme, "strict": strict, "average": average}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        found = metrics.chunk_precision_recall_fscore(true, pred, **given)
        each = [metrics.chunk_precision_score, metrics.chunk_recall_score]
        each = [score(true, pred, **given) for score in (*each, metrics.chunk_f1_score)]
    np.testing.assert_allclose(found, each, rtol=1e-15)
    return found


@pytest.mark.parametrize("scheme", LETTERS)
@pytest.mark.parametrize("strict", [False, True])
def test_agrees_with_seqeval(scheme, strict):
    pytest.importorskip("seqeval")
    from seqeval import scheme as schemes
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    from seqeval.metrics.v1 import precision_recall_fscore_support as strictly

    options = {"zero_division": 0}

    def scores(*pair):
        if strict:
            name = {"BIO": "IOB2"}.get(scheme, scheme)
            return strictly(*pair, scheme=getattr(schemes, name), **options)
        if scheme == "BILOU":  # which it reads with a scheme only
            letters = {"L": "E", "U": "S"}
            pair = [
                [[letters.get(tag[0], tag[0]) + tag[1:] for tag in row] for row in y]
                for y in pair
            ]
        return precision_recall_fscore_support(*pair, **options)

    right = set()
    for true, pred in random_pairs(LETTERS[scheme], 60):
        options["average"] = None
        expected = np.array(scores(true, pred)).T.reshape(-1, 4)
        given = {"scheme": scheme, "strict": strict, "output_dict": True}
        report = metrics.chunk_classification_report(true, pred, **given)
        total = report.pop("all")
        found = np.array([list(row.values()) for row in report.values()])
        np.testing.assert_allclose(found.reshape(-1, 4), expected, rtol=1e-12)
        assert total["support"] == expected[:, 3].sum()
        right.add(total["f1-score"])
        # of no types at all, seqeval computes a mean that is nan
        for average in ("micro", "macro", "weighted", None) if report else ():
            options["average"] = average
            expected = scores(true, pred)[:3]
            found = all_scores(true, pred, scheme, strict, average)
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert len(right) > 10


def test_scores_of_all_kinds():
    precision, recall, f1 = metrics.chunk_precision_recall_fscore(TRUE, PRED)
    assert (precision, recall) == (2 / 3, 2 / 3)
    assert f1 == metrics.chunk_f1_score(TRUE, PRED) == pytest.approx(2 / 3)
    with pytest.warns(UndefinedMetricWarning, match="y_pred"):
        assert metrics.chunk_f1_score([["B-A"]], [["O"]]) == 0.0
    with pytest.warns(UndefinedMetricWarning, match="y_true"):
        assert metrics.chunk_f1_score([["O"]], [["O"]], strict=True) == 0.0


def test_averages_over_types():
    """Of three types: one is found, one is missed, and one is only predicted."""
    true = [["B-A", "I-A", "B-A", "O", "B-B", "O"]]
    pred = [["B-A", "I-A", "B-A", "O", "O", "B-C"]]
    assert all_scores(true, pred) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert all_scores(true, pred, average="macro") == (1 / 3, 1 / 3, 1 / 3)
    found = all_scores(true, pred, average="weighted")
    assert found == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    for scores in all_scores(true, pred, average=None):
        assert scores.tolist() == [1.0, 0.0, 0.0]
    # without chunks there are no types
    none = [["O"]]
    assert all_scores(none, none, average="macro") == (0.0, 0.0, 0.0)
    assert all_scores(none, none, average="weighted") == (0.0, 0.0, 0.0)
    assert [len(scores) for scores in all_scores(none, none, average=None)] == [0] * 3


def test_warnings_of_types():
    """Each score warns of its own denominators; F1 is defined for these types."""
    true, pred = [["B-A", "B-B", "O"]], [["B-A", "O", "B-C"]]
    with pytest.warns(UndefinedMetricWarning, match="y_pred has no chunks.* 'B': .*pr"):
        metrics.chunk_precision_score(true, pred, average="macro")
    with pytest.warns(UndefinedMetricWarning, match="y_true has no chunks.* 'C': .*re"):
        metrics.chunk_recall_score(true, pred, average=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.chunk_f1_score(true, pred, average="macro") == 1 / 3
        assert metrics.chunk_precision_score(true, pred) == 0.5
    with pytest.raises(ValueError, match=r"average must be 'micro'.* None, got 'mean'"):
        metrics.chunk_f1_score(true, pred, average="mean")


def test_report_as_a_table():
    lines = metrics.chunk_classification_report(TRUE, PRED, digits=3).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["NP", "VP", "all"]
    assert lines[-1].split()[1:] == ["0.667", "0.667", "0.667", "3"]
    with pytest.raises(
        ValueError,
        match=r"y_pred\[0\] must have as many labels as y_true\[0\], 4, got 3",
    ):
        metrics.chunk_classification_report(TRUE, [row[:-1] for row in TRUE])


@pytest.mark.parametrize("scheme", LETTERS)
def test_the_same_scores_in_every_scheme(scheme):
    """And the scheme is found, also for strict scores."""
    true = random_chunks()
    pred = [[*row, "O"][1:] if i % 2 else row for i, row in enumerate(true)]
    expected = metrics.chunk_classification_report(true, pred, output_dict=True)
    assert 0.4 < expected["all"]["f1-score"] < 0.9
    assert expected["all"]["support"] == sum(tag[0] == "B" for r in true for tag in r)
    pred = metrics.convert_labels(pred, to=scheme)
    true = metrics.convert_labels(true, to=scheme.lower(), from_scheme="IOB2")
    assert {tag[0] for row in true for tag in row} == {*LETTERS[scheme], "O"}
    for given in ({}, {"strict": True}, {"strict": True, "scheme": scheme}):
        report = metrics.chunk_classification_report(
            true, pred, output_dict=True, **given
        )
        assert report == expected
    back = metrics.convert_labels(true, to="BIO", from_scheme=scheme)
    assert back == random_chunks()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", LETTERS)
def test_ill_formed_labels_are_repaired(scheme):
    """What the CoNLL evaluation finds, strict readers of the result find, too."""
    for y, _ in random_pairs(LETTERS[scheme], 30):
        for to in LETTERS:
            result = metrics.convert_labels(y, to=to, from_scheme=scheme)
            assert [[t == "O" for t in row] for row in result] == [
                [t == "O" for t in row] for row in y
            ]
            for row, converted in zip(y, result, strict=True):
                chunks = list(metrics.iter_chunks(row, scheme=scheme))
                found = metrics.iter_chunks(converted, scheme=to, strict=True)
                assert list(found) == chunks


def test_letters_alone_stay_alone():
    assert metrics.convert_labels([["I", "O", "B", "I"]], to="BILOU") == [
        ["U", "O", "B", "L"]
    ]
    assert metrics.convert_labels([[], np.array(["O"])], to="IOBES") == [[], ["O"]]


@pytest.mark.parametrize("scheme", LETTERS)
def test_forbidden_pairs_are_those_of_ill_formed_labels(scheme):
    """A labeling is well-formed if a conversion to its own scheme changes nothing."""
    labels = ["O"] + [f"{a}-{kind}" for a in LETTERS[scheme] for kind in "XY"]
    forbidden = set(scheme_transitions(labels, scheme))
    labelings = [list(row) for row in product(labels, repeat=3)]
    repaired = metrics.convert_labels(labelings, to=scheme, from_scheme=scheme)
    n_well_formed = 0
    for row, mended in zip(labelings, repaired, strict=True):
        steps = zip([None, *row], [*row, None], strict=True)
        assert (row == mended) == forbidden.isdisjoint(steps)
        n_well_formed += row == mended
    assert 10 < n_well_formed < len(labelings)


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O"], "BIO"),
        (["O", "B-X"], "BIO"),
        (["O", "B-X", "I-X", "I-Y"], "BIO"),
        (["O", "I-X"], "IOB1"),
        (["S-X"], "IOBES"),
        (["O", "I-X", "E-X", "B-X"], "IOBES"),
        (["U", "L", "B", "I", "O"], "BILOU"),
    ],
    ids=str,
)
def test_scheme_of_labels(labels, scheme):
    rules = scheme_transitions(labels)
    assert rules == scheme_transitions(labels, scheme)
    assert bool(rules) == (len(labels) > 2)


# True and predicted labels, what else is given, and the message.
BAD = {
    "of two schemes": (
        [["O"], ["B-X", "E-X"]], [["O"], ["O", "U-Y"]], {},
        r"y_true\[1\] has the label 'E-X', which is of the scheme IOBES, but "
        r"y_pred\[1\] has the label 'U-Y', which is of BILOU: bring them to one",
    ),
    "of no scheme": (
        [["O"], ["O", "PER"]], [["O"], ["O", "O"]], {},
        r"y_true\[1\] has the label 'PER', which is of no scheme of spans: expected",
    ),
    "lower case": ([["b-X"]], [["O"]], {}, r"y_true\[0\] has the label 'b-X'"),
    "number": ([["O", 1]], [["O", "O"]], {}, r"y_true\[0\] has the label 1, which"),
    "None": ([["O", "O"]], [["O", None]], {}, r"y_pred\[0\] has a missing label: None"),
    "not the given one": (
        [["B-X", "I-X"]], [["O", "S-X"]], {"scheme": "BIO"},
        r"y_pred\[0\] has the label 'S-X', which is not of the scheme BIO but of IOBES",
    ),
    "predicted only": (
        [["B-X", "I-X"]], [["B-X", "E-X"]], {"strict": True},
        r"y_pred\[0\] has the label 'E-X', which is of the scheme IOBES, but no chunk "
        r"of y_true is whole .* pass scheme='IOBES'",
    ),
    "IOE2": (
        [["I-X", "E-X"]], [["O", "O"]], {"strict": True},
        r"y_true\[0\] has the label 'E-X', .* pass scheme='IOBES'",
    ),
    "neither BIO nor IOB1": (
        [["O"], ["O", "I-X"], ["B-X", "I-X"]], [["O"]] + 2 * [["O", "O"]],
        {"strict": True},
        r"neither well-formed BIO \(y_true\[1\] has the label 'I-X' at position 1\) "
        r"nor IOB1 \(y_true\[2\] has the label 'B-X' at position 0\): pass scheme=",
    ),
    "unknown scheme": ([["O"]], [["O"]], {"scheme": "IOE"}, "scheme must be 'auto', "),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_errors(name):
    true, pred, given, message = BAD[name]
    for score in (metrics.chunk_f1_score, metrics.chunk_classification_report):
        with pytest.raises(ValueError, match=message):
            score(true, pred, **given)


def test_errors_of_single_sequences_and_conversions():
    with pytest.raises(ValueError, match="tags has the label 'PER', which"):
        metrics.iter_chunks(["O", "PER"])
    with pytest.raises(ValueError, match=r"y\[1\] has the label 'L-X', .* of the sch"):
        metrics.convert_labels([["O"], ["B-X", "L-X"]], "BIO", from_scheme="IOBES")
    with pytest.raises(ValueError, match="to must be 'BIO', 'IOB1', 'IOBES' or 'BILOU"):
        metrics.convert_labels([["O"]], to="auto")
    with pytest.raises(TypeError, match="y must be a list of label sequences"):
        metrics.convert_labels(3, to="BIO")


def test_what_predictions_may_lack_or_have():
    """The CoNLL reading needs no scheme, and with `strict` y_true decides."""
    true = [["B-X", "I-X", "O"]]
    assert metrics.chunk_f1_score(true, [["B-X", "E-X", "O"]]) == 1.0
    # BIO in y_true, so that I- does not begin a chunk; IOB1 there, so that it does
    f1 = metrics.chunk_f1_score
    both = [["I-X", "I-X", "O"]]
    with pytest.warns(UndefinedMetricWarning, match="no chunks in y_pred"):
        assert f1(true, both, strict=True) == 0.0
    assert f1(both, both, strict=True) == f1(true, both) == 1.0
    with pytest.warns(UndefinedMetricWarning, match="no chunks in y_true"):
        assert f1([["O"]], [["S-X"]], strict=True) == 0.0


def test_scorers_of_taggers():
    """Of a tagger of IOBES labels, with the defaults and with a given scheme."""
    X = [[["Ada"], ["Lovelace"], ["saw"], ["Rome"]], [["it"], ["saw"], ["Ada"]]]
    y = [["B-PER", "E-PER", "O", "S-LOC"], ["O", "O", "S-PER"]]
    tagger = make_tagger(forbidden_transitions="auto", random_state=0)
    strict = make_scorer(metrics.chunk_f1_score, scheme="IOBES", strict=True)
    for scorer in (metrics.chunk_f1_scorer, strict):
        scores = cross_val_score(tagger, 4 * X, 4 * y, cv=2, scoring=scorer)
        assert scores.tolist() == [1.0, 1.0]
    found, true = tagger.fit(X, y).predict(X), [y[0], ["S-PER", "O", "S-LOC"]]
    for name, average in (
        ("macro_", "macro"),
        ("weighted_", "weighted"),
        ("", "micro"),
    ):
        scorer = getattr(metrics, f"chunk_f1_{name}scorer")
        score = metrics.chunk_f1_score(true, found, average=average)
        assert 0 < scorer(tagger, X, true) == score < 1
    assert metrics.chunk_precision_scorer(tagger, X, true) == 2 / 3
    assert metrics.chunk_recall_scorer(tagger, X, true) == 2 / 4
    bio = make_scorer(metrics.chunk_f1_score, scheme="BIO")
    with pytest.raises(ValueError, match="not of the scheme BIO"):
        bio(tagger.fit(X, y), X, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "n_chunks"),
    [
        ("ner/btc_dev.txt.gz", 4376),
        ("bio/ncbi_disease_iobes_devel.txt.gz", 787),
        ("bio/bc2gm_iobes_devel.txt.gz", 3061),
    ],
)
def test_all_entities_are_counted(data_home, path, n_chunks):
    if not (data_home / path).is_file():
        pytest.skip(f"{path} is not among the real data sets")
    with gzip.open(data_home / path, "rt", encoding="utf-8", newline="\n") as lines:
        ends = [line.split()[-1:] for line in lines]
    y = [[end[0] for end in g] for some, g in groupby(ends, key=bool) if some]
    for to in LETTERS:
        labels = metrics.convert_labels(y, to=to)
        for strict in (False, True):
            report = metrics.chunk_classification_report(
                labels, labels, strict=strict, output_dict=True
            )
            assert report["all"]["support"] == n_chunks
            assert report["all"]["f1-score"] == 1.0


def test_report_of_a_type_with_the_name_of_the_summary():
    y_true, y_pred = [["B-all", "O", "B-(all)"]], [["O", "O", "B-(all)"]]
    report = metrics.chunk_classification_report(y_true, y_pred, output_dict=True)
    assert report["all"]["recall"] == 0.0 and report["(all)"]["recall"] == 1.0
    assert report["((all))"]["support"] == 2 and len(report) == 3
    assert "((all))" in metrics.chunk_classification_report(y_true, y_pred)
