"""Labels from spans of characters and back, against the characters one by one."""

import numpy as np
import pytest

from sksstruct import make_tagger
from sksstruct.metrics import iter_chunks, labels_to_spans, spans_to_labels

SCHEMES = "BIO", "IOB1", "IOBES", "BILOU"
OFFSETS = [(0, 3), (4, 12), (13, 18), (19, 21), (22, 28), (28, 29)]


def random_text(rng, whole):
    """Tokens of a text with gaps, and spans; if they are to be whole, of tokens."""
    edges = np.cumsum(rng.integers(1, 5, size=14))
    tokens = [tuple(edges[k : k + 2].tolist()) for k in range(13) if rng.random() < 0.8]
    spans, t = [], 0
    while whole and t < len(tokens):
        n = int(rng.integers(1, 4))
        if rng.random() < 0.5 and t + n <= len(tokens):
            kind = str(rng.choice(["X", "Y-Z"]))
            spans.append((tokens[t][0], tokens[t + n - 1][1], kind))
        t += n
    if not whole:
        ends = np.unique(rng.integers(0, edges[-1] + 3, size=8)).tolist()
        pairs = zip(ends[::2], ends[1::2], strict=False)
        spans = [(a, b, str(rng.choice(["X", "Y"]))) for a, b in pairs]
    return tokens, spans


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_way_there_and_back(scheme):
    rng = np.random.default_rng(0)
    texts = [random_text(rng, whole=True) for _ in range(50)]
    offsets, spans = map(list, zip(*texts, strict=True))
    shuffled = [[row[k] for k in rng.permutation(len(row))] for row in spans]
    labels = spans_to_labels(shuffled, offsets, scheme=scheme)
    assert sum(map(len, spans)) > 100
    for strict in (False, True):
        given = {"scheme": scheme, "strict": strict}
        assert labels_to_spans(labels, offsets, **given) == spans
        # and the chunks are those of the tokens
        for row, tokens, own in zip(labels, offsets, spans, strict=True):
            for kind, a, b in iter_chunks(row, **given):
                assert (tokens[a][0], tokens[b - 1][1], kind) in own


@pytest.mark.parametrize("cut", ["expand", "contract", "unknown"])
def test_spans_that_cut_tokens(cut):
    """By the definitions, from the characters that spans and tokens have."""
    rng, n_cut = np.random.default_rng(1), 0
    for _ in range(300):
        tokens, spans = random_text(rng, whole=False)
        expected, clash = ["O"] * len(tokens), False
        for start, stop, kind in spans:
            own = set(range(start, stop))
            shares = [own & set(range(*token)) for token in tokens]
            touched = [t for t, share in enumerate(shares) if share]
            whole = [t for t in touched if len(shares[t]) == np.diff(tokens[t])[0]]
            n_cut += touched != whole
            places = whole if cut == "contract" else touched
            if cut == "unknown" and touched != whole:
                for t in touched:
                    expected[t] = None
                continue
            for t in places:
                clash |= expected[t] != "O"
                expected[t] = f"{'B' if t == places[0] else 'I'}-{kind}"
        if clash:
            assert cut == "expand"
            with pytest.raises(ValueError, match="are both to label the token"):
                spans_to_labels([spans], [tokens], cut=cut)
        else:
            assert spans_to_labels([spans], [tokens], cut=cut) == [expected]
    assert n_cut > 100


def test_what_is_not_a_character():
    """Marks of tokenizers are in no span, unless they are within one."""
    offsets = [(0, 0), (0, 3), (3, 3), (4, 8), (0, 0)]
    labels = spans_to_labels([[(0, 8, "A")]], [offsets])
    assert labels == [["O", "B-A", "I-A", "I-A", "O"]]
    assert labels_to_spans(labels, [offsets]) == [[(0, 8, "A")]]
    odd = [["B-A", "I-A", "O", "O", "B-B"]]
    assert labels_to_spans(odd, [offsets]) == [[(0, 3, "A")]]
    # pieces of one character share its place; blanks at the ends of a span cut nothing
    assert spans_to_labels(
        [[(0, 5, "A")]], [[(0, 1), (0, 1), (2, 4)]], scheme="IOBES"
    ) == ([["B-A", "I-A", "E-A"]])
    assert spans_to_labels([[], []], [[], OFFSETS]) == [[], ["O"] * 6]
    found = spans_to_labels([[(0, 12, "PER", 0.9)]], [np.array(OFFSETS)])
    assert found[0][:3] == ["B-PER", "I-PER", "O"]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 12, "A"), (4, 18, "B")],
         r"spans\[0\]: the spans \(0, 12, 'A'\) and \(4, 18, 'B'\) overlap"),
        ([(0, 12, "A"), (4, 12, "A")], r"overlap, and a token has one label"),
        ([(0, 5, "A")], r"\(0, 5, 'A'\) cuts the token \(4, 12\) at position 1"),
        ([(1, 12, "A")], r"cuts the token \(0, 3\) at position 0: pass cut='expand'"),
        ([(3, 4, "A")], r"spans\[0\]: the span \(3, 4, 'A'\) has no token"),
        ([(40, 41, "A")], "has no token"),
        ([(3, 3, "A")], r"spans\[0\]\[0\] must be \(start, stop, kind\)"),
        ([(0, 3)], r"spans\[0\]\[0\] must be"),
        ([(0, 3, "")], r"must be \(start, stop, kind\)"),
        ([(0.0, 3, "A")], r"must be \(start, stop, kind\)"),
        (["abc"], r"must be \(start, stop, kind\)"),
    ],
)  # fmt: skip
def test_errors_of_spans(spans, message):
    with pytest.raises(ValueError, match=message):
        spans_to_labels([spans], [OFFSETS])


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([(4, 8), (0, 3)], r"offsets\[0\] has \(0, 3\) at position 1: tokens begin"),
        ([(0, 3), (2, 2), (5, 4)], r"offsets\[0\] has \(5, 4\) at position 2"),
        ([(-1, 3)], r"has \(-1, 3\) at position 0"),
        ([(0.5, 3)], r"offsets\[0\] must be pairs \(start, stop\) of integers"),
        ([(0, 3), (4,)], r"offsets\[0\] must be pairs"),
        ([0, 3], r"offsets\[0\] must be pairs"),
    ],
)  # fmt: skip
def test_errors_of_offsets(offsets, message):
    with pytest.raises(ValueError, match=message):
        spans_to_labels([[]], [offsets])
    with pytest.raises(ValueError, match=message):
        labels_to_spans([["O"] * len(offsets)], [offsets])


def test_errors_of_sizes():
    with pytest.raises(
        ValueError,
        match="spans must have a list for each of the 1 texts of offsets, got 2",
    ):
        spans_to_labels([[], []], [OFFSETS])
    with pytest.raises(ValueError, match=r"offsets\[0\] has 6 tokens, .* are 2 labels"):
        labels_to_spans([["O", "O"]], [OFFSETS])
    with pytest.raises(ValueError, match="offsets has 2 texts, but there are 1 seq"):
        labels_to_spans([["O"] * 6], [OFFSETS, OFFSETS])
    with pytest.raises(ValueError, match=r"cut must be 'error', .* 'unknown', got 3"):
        spans_to_labels([[]], [OFFSETS], cut=3)
    with pytest.raises(ValueError, match="scheme must be 'BIO'"):
        spans_to_labels([[]], [OFFSETS], scheme="auto")
    with pytest.raises(TypeError, match="spans must be a list with a list"):
        spans_to_labels([3], [OFFSETS])
    with pytest.raises(TypeError, match="offsets must be a list"):
        labels_to_spans([["O"]], "a text")


def test_entities_of_a_text():
    """From annotated texts to entities with characters; labels may be unknown."""
    texts = ["Ada ran.", "He met Ada Lovelace.", "Bob ran."]
    spans = [[(0, 3, "PER")], [(7, 19, "PER")], [(0, 2, "PER")]]
    offsets = [
        [(0, 3), (4, 7), (7, 8)],
        [(0, 2), (3, 6), (7, 10), (11, 19), (19, 20)],
        [(0, 3), (4, 7), (7, 8)],
    ]
    X = [
        [{"w": text[a:b], "title": text[a].isupper()} for a, b in tokens]
        for text, tokens in zip(texts, offsets, strict=True)
    ]
    y = spans_to_labels(spans, offsets, cut="unknown")
    assert y[2] == [None, "O", "O"]
    tagger = make_tagger(loss="log", alpha=1e-3, random_state=0).fit(X, y)
    found = tagger.predict_entities(X, offsets=offsets)
    assert [span[:3] for span in found[1]] == spans[1]
    assert labels_to_spans(tagger.predict(X), offsets) == [
        [span[:3] for span in row] for row in found
    ]
    plain = tagger.predict_entities(X)
    assert [p for row in plain for *_, p in row] == [
        p for row in found for *_, p in row
    ]
    assert plain[1][0][:2] == (2, 4)
    # the spans that were found are annotations in turn
    assert spans_to_labels(found, offsets) == [
        row.tolist() for row in tagger.predict(X)
    ]
    with pytest.raises(ValueError, match=r"offsets\[0\] has 5 tokens, .* 3 positions"):
        tagger.predict_entities(X, offsets=offsets[1:] + offsets[:1])
