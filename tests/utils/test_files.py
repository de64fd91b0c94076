"""Files of others: each reader refuses what is damaged in the same way."""

import bz2
import gzip
import lzma
import re

import pytest

from tests.fuzz.readers import LOADERS, TEXTS

PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
GRAPHS = "uai", "wcsp", "keywords", "fg", "cfn", "ergo", "evidence", "solution"
LINES = "conll", "conllu", "clusters", "gazetteer", "vectors"


def refusal(name, path, text):
    """What is said of a text that is no longer right; "" if it is read nevertheless."""
    path.write_bytes(text)
    try:
        LOADERS[name][0](path)
    except ValueError as error:
        said = str(error)
        assert type(error) is ValueError and said.startswith(str(path)), repr(error)
        # the name of the file may be long
        assert len(said) < len(str(path)) + 700
        return said
    return ""


@pytest.mark.parametrize("name", LOADERS)
def test_missing_files_and_folders(name, tmp_path):
    with pytest.raises(FileNotFoundError):
        LOADERS[name][0](tmp_path / "x.txt")
    with pytest.raises(IsADirectoryError):
        LOADERS[name][0](tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "suffix"),
    [(name, suffix) for name in GRAPHS for suffix in PACKERS]
    + [(name, ".gz") for name in (*LINES, "json")],
)
def test_damaged_compression(name, suffix, tmp_path):
    path, text = tmp_path / f"x{LOADERS[name][1]}{suffix}", TEXTS[name]
    packed = PACKERS[suffix](text)
    assert refusal(name, path, packed) == ""
    assert "truncated or damaged" in refusal(name, path, text)
    for k in range(1, len(packed), 1 + len(packed) // 40):
        cut, flipped = packed[:k], bytearray(packed)
        flipped[k] ^= 0xFF
        assert "truncated or damaged" in refusal(name, path, cut)
        refusal(name, path, bytes(flipped))


@pytest.mark.parametrize("name", LINES)
def test_text_in_another_encoding(name, tmp_path):
    text = TEXTS[name].rstrip(b"\n")
    n = text.count(b"\n") + 1
    # further on than what is read at a time
    last = b"\n" * (2**17 if name == "conll" else 0) + b"\nna\xefve"
    line = n + last.count(b"\n")
    said = refusal(name, tmp_path / "x", text + last)
    assert f", line {line}: it is not UTF-8" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LOADERS if name != "crfsuite"])
@pytest.mark.parametrize(
    "number",
    [
        "1" + "0" * 18,
        "9" * 20,
        "9" * 29,
        "1e999",
        "-1e999",
        "7" * 5000,
        "-" + "7" * 400,
    ],
)
def test_absurd_numbers(name, number, tmp_path):
    text = TEXTS[name].decode()
    for found in re.finditer(r"(?<![\w.\"])-?[0-9.]+(e-?\d+)?", text):
        changed = text[: found.start()] + number + text[found.end() :]
        refusal(name, tmp_path / f"x{LOADERS[name][1]}", changed.encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("word", ["x" * 10**5, "\u00e9" * 10**5, "[" * 10**5])
def test_long_words(name, word, tmp_path):
    text, word = TEXTS[name], word.encode()
    for found in list(re.finditer(rb"[\w.=@<>-]+", text))[:150]:
        changed = text[: found.start()] + word + text[found.end() :]
        refusal(name, tmp_path / "x", changed)


def test_a_file_that_does_not_fit_into_memory(tmp_path, monkeypatch):
    path = tmp_path / "x.uai"
    path.write_bytes(TEXTS["uai"])

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("sksstruct.datasets._uai.read_all_tables", fail)
    with pytest.raises(
        ValueError, match=r"x\.uai, line \d+: it is too large for the me"
    ):
        LOADERS["uai"][0](path)
