"""``sksstruct export``, and ``sksstruct tag`` with JSON."""

import joblib
import pytest
from sklearn.pipeline import make_pipeline

from sksstruct import ChainCRF, Tagger, make_tagger
from sksstruct.commands import main
from sksstruct.feature_extraction import SequenceVectorizer

TEXT = "Ada B-PER\nspoke O\n\nIt O\nrained O\n"


def test_export(tmp_path, capsys):
    data, model = tmp_path / "train.txt", tmp_path / "tagger.joblib"
    data.write_text(TEXT)
    main(["train", str(data), "-m", str(model)])
    capsys.readouterr()
    assert main(["export", str(model), "--to", "json"]) == 0
    written = tmp_path / "tagger.json"
    size = written.stat().st_size
    assert capsys.readouterr().out == f"wrote {written}, {size} bytes\n"
    found = []
    for name in (model, written):
        assert main(["tag", str(data), "-m", str(name)]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1] and "B-PER" in found[0]
    assert main(["export", str(model), "--to", "crfsuite"]) == 0
    tagger = Tagger.from_crfsuite(tmp_path / "tagger.crfsuite")
    assert set(tagger[-1].classes_) == {"B-PER", "O"}
    # a name of two parts loses both
    joblib.dump(joblib.load(model), tmp_path / "small.joblib.gz")
    assert main(["export", str(tmp_path / "small.joblib.gz"), "--to", "json"]) == 0
    assert (tmp_path / "small.json").read_bytes() == written.read_bytes()
    # from JSON, too, and compressed
    output = str(tmp_path / "x.json.gz")
    assert main(["export", str(written), "--to", "json", "-o", output]) == 0
    assert Tagger.from_json(output).predict([(["Ada"],)])[0].tolist() == ["B-PER"]


@pytest.mark.parametrize("kind", ["pipeline", "chain"])
def test_other_taggers(kind, tmp_path):
    X, y = [[{"w": "a"}, {"w": "b"}]], [["x", "y"]]
    vectorizer = SequenceVectorizer()
    crf = ChainCRF().fit(vectorizer.fit_transform(X), y)
    model = make_pipeline(vectorizer, crf) if kind == "pipeline" else crf
    joblib.dump(model, tmp_path / "m")
    arguments = ["export", str(tmp_path / "m"), "--to", "crfsuite"]
    assert main(arguments) == 0
    found = Tagger.from_crfsuite(tmp_path / "m.crfsuite")
    marked = make_tagger().fit(X, y).crfsuite_items(X)
    assert found.predict(marked)[0].tolist() == y[0]


def test_wrong_input(tmp_path, capsys):
    joblib.dump([1], tmp_path / "m")
    assert main(["export", str(tmp_path / "m"), "--to", "json"]) == 2
    assert "has a list; expected a Tagger" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "none"), "--to", "json"]) == 2
    (tmp_path / "x.json").write_text("{}")
    assert main(["export", str(tmp_path / "x.json"), "--to", "crfsuite"]) == 2
    assert "is no tagger in JSON" in capsys.readouterr().err
    output = str(tmp_path / "none" / "x")
    assert main(["export", str(tmp_path / "m"), "--to", "json", "-o", output]) == 2
    assert "there is no folder" in capsys.readouterr().err
