import gzip

import numpy as np
import pytest
from scipy import sparse

from sksstruct import datasets


class TestReadConll:
    def test_reads_a_file(self, tmp_path):
        text = "\nHe PRP B-NP\r\nran VBD B-VP\n\n\n# x\nYes UH O"
        path = tmp_path / "a.txt"
        path.write_text(text, newline="")
        packed = tmp_path / "a.txt.gz"
        packed.write_bytes(gzip.compress(text.encode()))
        expected = [
            (["He", "ran"], ["PRP", "VBD"], ["B-NP", "B-VP"]),
            (["Yes"], ["UH"], ["O"]),
        ]
        assert datasets.read_conll(path, comment="#") == expected
        assert datasets.read_conll(str(packed), comment="#") == expected

    def test_errors_name_the_line(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("a b\nc\n")
        with pytest.raises(ValueError, match=r"a\.txt, line 2: 1 columns instead of 2"):
            datasets.read_conll(path)
        for lines in (["# id = 1", "a b"], ["a b", "#"]):
            with pytest.raises(ValueError, match="pass comment='#'"):
                datasets.read_conll(lines)
        with pytest.raises(ValueError, match="line 1: 2 columns instead of 3"):
            datasets.read_conll(path, n_columns=3)
        with pytest.raises(ValueError, match=r"line 1: column 2 is empty.*empty='_'"):
            datasets.read_conll(["a\t\tb"], separator="\t")
        assert datasets.read_conll(["", " "]) == datasets.read_conll([]) == []
        path.write_text("# x\n-DOCSTART- O\n\n \t\n")
        assert datasets.read_conll(path, comment="#") == []
        path.write_bytes(b"\xff\xfe a\n")
        with pytest.raises(ValueError, match="not UTF-8"):
            datasets.read_conll(path)

    def test_only_spaces_and_tabs_separate(self, tmp_path):
        # white space of Unicode, and what Python takes for ends of lines
        words = [
            "a\u00a0b",
            "\u00a0",
            "c\x85d",
            "e\u2028f",
            "g\x0bh",
            "i\x1cj",
            "\u3000",
        ]
        text = "".join(f"{word}  \t O \r\n" for word in words)
        path = tmp_path / "a.txt"
        path.write_text(text, newline="", encoding="utf-8")
        expected = [(words, ["O"] * len(words))]
        assert datasets.read_conll(path) == expected
        assert datasets.read_conll(text.split("\n")) == expected
        # several tabs are one separator where the number of columns is right
        lines = ["He  PRP\t\tO", "ran\tVBD\tO", " \t ", "\tYes UH O"]
        assert datasets.read_conll(lines) == [
            (["He", "ran"], ["PRP", "VBD"], ["O", "O"]),
            (["Yes"], ["UH"], ["O"]),
        ]
        # and one tab is where a word has a space
        lines = ["He\tPRP", "New York\tNNP", "\x0cran\tVBD"]
        assert datasets.read_conll(lines) == [
            (["He", "New York", "\x0cran"], ["PRP", "NNP", "VBD"])
        ]

    @pytest.mark.parametrize("lines", [["a\tO", "\tB"], ["\tB"], [" \tB", "a O"]])
    def test_empty_tokens(self, lines):
        with pytest.raises(ValueError, match=r"the token is empty.*pass.*empty='_'"):
            datasets.read_conll(lines)
        ((words, labels),) = datasets.read_conll(lines, empty="?")
        assert words == [line[0].strip() or "?" for line in lines]
        assert len(labels) == len(lines) and "B" in labels
        assert "" in datasets.read_conll(lines, empty="")[0][0]

    @pytest.mark.parametrize("token", ["a\t\tO", "a\tb\t"])
    def test_empty_columns_of_the_first_token(self, token):
        for lines in ([token, "c\td\tO"], ["c\td\tO", token]):
            (columns,) = datasets.read_conll(lines, empty="_")
            assert [row[lines.index(token)] for row in columns] == [
                word or "_" for word in token.split("\t")
            ]
        with pytest.raises(ValueError, match=r"line 2: 3 columns .* the first token"):
            datasets.read_conll([token, "c\td\tO"])

    def test_documents_are_no_tokens(self):
        lines = ["-DOCSTART- -X- O", "", "a DT O", "-DOCSTART- -X- O", "b NN O"]
        assert datasets.read_conll(lines) == [
            (["a"], ["DT"], ["O"]),
            (["b"], ["NN"], ["O"]),
        ]
        kept = datasets.read_conll(lines, keep_docstart=True)
        assert [row[0] for row in kept] == [
            ["-DOCSTART-"],
            ["a", "-DOCSTART-", "b"],
        ]

    @pytest.mark.parametrize(
        ("part", "n_sentences", "n_tokens"),
        [("dev", 2000, 35427), ("test", 2001, 29480)],
    )
    def test_a_corpus_of_tweets(self, data_home, part, n_sentences, n_tokens):
        path = data_home / "ner" / f"btc_{part}.txt.gz"
        if not path.exists():
            pytest.skip("this corpus is not in the folder of data")
        with pytest.raises(ValueError, match="the token is empty"):
            datasets.read_conll(path)
        sentences = datasets.read_conll(path, empty="_")
        assert len(sentences) == n_sentences
        assert sum(len(words) for words, _ in sentences) == n_tokens
        assert {label[0] for _, labels in sentences for label in labels} == set("BIO")

    def test_a_byte_order_mark_is_no_part_of_a_word(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("a b\n", encoding="utf-8-sig")
        assert datasets.read_conll(path) == [(["a"], ["b"])]

    def test_damaged_gzip(self, tmp_path):
        path = tmp_path / "a.txt.gz"
        packed = gzip.compress(b"some words\n" * 50)
        for data in (packed[:30], packed[:10] + b"\x07" + packed[11:]):
            path.write_bytes(data)
            with pytest.raises(
                ValueError, match=r"a\.txt\.gz, line 1: it is truncated or damaged"
            ):
                datasets.read_conll(path)


class TestFetch:
    @pytest.mark.parametrize("mark", ["", "\ufeff"])
    def test_words_with_spaces(self, mark, tmp_path):
        """Tabs separate columns if all lines have the same number of columns so."""
        path = tmp_path / "file.txt"

        def read(text):
            path.write_text(mark + text, encoding="utf-8")
            return datasets.read_conll(path)

        for words in (["New York", "is"], ["is", "New York"], ["a b", "c d e"]):
            text = "".join(f"{word}\tO\n" for word in words)
            assert read(text) == [(words, ["O", "O"])]
            assert read("\n-DOCSTART-\t-X-\t-X-\n\n" + text) == [(words, ["O", "O"])]
        # spaces and tabs, as one of the lines needs it
        assert read("a b\tO\nc d O\n") == [(["a", "c"], ["b", "d"], ["O", "O"])]
        assert read("a\t\tb c\nd e f\n") == [(["a", "d"], ["b", "e"], ["c", "f"])]
        with pytest.raises(ValueError, match=r"line 2: 4 .* pass separator='\\t'"):
            read("a b\tO\nc d e\tO\nc d O\n")

    def test_carriage_returns(self, tmp_path):
        path = tmp_path / "file.txt"
        path.write_bytes(b"a O\rb O\r\rc O\r")
        with pytest.raises(ValueError, match=r"line 1: .*carriage return"):
            datasets.read_conll(path)
        path.write_bytes(b"a O\r\nb O\r\n\r\nc O\r\n")
        assert len(datasets.read_conll(path)) == 2

    def test_other_encodings(self, tmp_path):
        path = tmp_path / "file.txt"
        path.write_bytes("Z\xfcrich B\n".encode("latin-1"))
        assert datasets.read_conll(path, encoding="latin-1") == [(["Z\xfcrich"], ["B"])]
        with pytest.raises(ValueError, match="not UTF-8"):
            datasets.read_conll(path)

    @pytest.mark.slow
    def test_conll2000(self, data_home):
        train = datasets.fetch_conll2000(data_home=data_home, download_if_missing=False)
        assert len(train.words) == 8936 and sum(map(len, train.words)) == 211727
        assert len({label for row in train.labels for label in row}) == 22
        test = datasets.fetch_conll2000("test", data_home=data_home)
        assert len(test.tags) == 2012

    def test_ocr_letters(self, data_home):
        data = datasets.fetch_ocr_letters(data_home=data_home)
        assert len(data.X) == 6877 and sum(map(len, data.y)) == 52152
        small = datasets.fetch_ocr_letters("fold0", data_home=data_home)
        rest = datasets.fetch_ocr_letters("rest", data_home=data_home)
        assert len(small.X) == 626 and len(rest.X) == 6251
        assert set(small.fold) == {0} and 0 not in rest.fold
        assert data.X[0].shape == (len(data.y[0]), 128)

    @pytest.mark.slow
    def test_ocr_letters_from_the_public_format(self, data_home, tmp_path):
        """The same data written as letter.data.gz and read again."""
        with np.load(data_home / "ocr_letters.npz") as z:
            X, y, offsets, fold = z["X"], z["y"], z["offsets"], z["fold"]
        ends = set((offsets[1:] - 1).tolist())
        words = np.repeat(np.arange(len(fold)), np.diff(offsets))
        # digits with tabs between them
        pixels = np.full((len(X), 2 * X.shape[1] - 1), ord("\t"), np.uint8)
        pixels[:, ::2] = X + ord("0")
        lines = [
            f"{k + 1}\t{chr(97 + y[k])}\t{-1 if k in ends else k + 2}\t{words[k]}\t1\t"
            f"{fold[words[k]]}\t" + pixels[k].tobytes().decode()
            for k in range(len(y))
        ]
        path = tmp_path / "letter.data.gz"
        path.write_bytes(gzip.compress("\n".join(lines).encode(), 1))
        data = datasets.fetch_ocr_letters(data_home=tmp_path)
        assert len(data.X) == 6877
        first = lines[: offsets[1]]
        path.write_bytes(gzip.compress("\n".join(first[:-1]).encode(), 1))
        with pytest.raises(ValueError, match="last word has no last letter"):
            datasets.fetch_ocr_letters(data_home=tmp_path)
        first[3] = first[3].replace("\t", " ", 1) + "\t0"
        path.write_bytes(gzip.compress("\n".join(first).encode(), 1))
        with pytest.raises(ValueError, match="line 4: expected 134 columns, got 135"):
            datasets.fetch_ocr_letters(data_home=tmp_path)

    def test_other_content_is_refused(self, tmp_path):
        (tmp_path / "conll2000").mkdir()
        path = tmp_path / "conll2000" / "train.txt.gz"
        path.write_bytes(gzip.compress(b"a b c\n"))
        with pytest.raises(OSError, match="not the expected ones"):
            datasets.fetch_conll2000(data_home=tmp_path)

    def test_missing_file(self, tmp_path):
        with pytest.raises(OSError, match="download_if_missing=False"):
            datasets.fetch_conll2000(data_home=tmp_path, download_if_missing=False)

    def test_download(self, tmp_path, monkeypatch):
        from io import BytesIO
        from urllib.error import URLError

        from sksstruct.datasets import _fetch

        def unreachable(url, timeout):
            raise URLError("no network")

        monkeypatch.setattr(_fetch, "urlopen", unreachable)
        with pytest.raises(OSError, match=r"fetching it from .* failed"):
            datasets.fetch_ocr_letters(data_home=tmp_path / "new")
        content = gzip.compress(b"He PRP O\n")
        monkeypatch.setattr(_fetch, "urlopen", lambda url, timeout: BytesIO(content))
        with pytest.raises(OSError, match="not the expected ones"):
            datasets.fetch_conll2000(data_home=tmp_path)
        assert (tmp_path / "conll2000" / "train.txt.gz").read_bytes() == content

    def test_environment_variable(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SKSSTRUCT_DATA", str(tmp_path))
        with pytest.raises(OSError, match=str(tmp_path)):
            datasets.fetch_conll2000(download_if_missing=False)

    @pytest.mark.parametrize(
        "fetch", [datasets.fetch_conll2000, datasets.fetch_ocr_letters]
    )
    def test_unknown_subset(self, fetch):
        with pytest.raises(ValueError, match="subset must be"):
            fetch("dev")


def test_digit_strings():
    data = datasets.load_digit_strings(30, 20)
    assert data.X_train.shape == (30, 4, 64) and data.X_test.shape == (20, 4, 64)
    years = [int("".join(map(str, row))) for row in data.y_train]
    assert min(years) >= 1950 and max(years) <= 2029
    again = datasets.load_digit_strings(30, 20)
    np.testing.assert_array_equal(data.X_train, again.X_train)
    train, test = (
        set(map(bytes, x.reshape(-1, 64))) for x in (data.X_train, data.X_test)
    )
    assert not train & test
    with pytest.raises(ValueError, match="at least 1"):
        datasets.load_digit_strings(0)


def test_make_chain():
    data = datasets.make_chain(
        20, n_features=4, n_classes=5, max_length=6, random_state=1
    )
    assert {len(row) for row in data.y} <= set(range(1, 7))
    assert max(row.max() for row in data.y) <= 4
    thin = datasets.make_chain(5, density=0.2, random_state=1)
    assert all(sparse.issparse(x) for x in thin.X)
    for bad in (
        {"min_length": 0},
        {"min_length": 5, "max_length": 4},
        {"n_classes": 0},
    ):
        with pytest.raises(ValueError):
            datasets.make_chain(**bad)


def test_make_segments():
    data = datasets.make_segments(5, n_segments=4, min_length=6, random_state=0)
    for x, labels in zip(data.X, data.y, strict=True):
        ends = np.flatnonzero(np.diff(labels)) + 1
        assert len(ends) == 3 and x.shape == (len(labels), 3)
        assert np.diff([0, *ends, len(labels)]).min() >= 6
    assert not data.transitions.diagonal().any()
    np.testing.assert_allclose(data.transitions.sum(axis=1), 1)
    for bad in ({"n_classes": 1}, {"mean_length": 3.0}, {"correlation": 1.0}):
        with pytest.raises(ValueError, match="must be at least"):
            datasets.make_segments(**bad)
