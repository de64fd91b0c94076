"""``sksstruct train`` and ``sksstruct tag``."""

import io
import json
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import sksstruct
from sksstruct.commands import main
from sksstruct.commands._json_tagger import UNREADABLE, JsonTagger
from sksstruct.datasets import read_conll
from sksstruct.estimators import ChainCRF, Tagger
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceVectorizer,
    affix_features,
    shape_features,
    window_features,
)
from sksstruct.utils.version import __version__

TRAIN = """\
Ada NNP B-PER
Lovelace NNP I-PER
spoke VBD O

In IN O
Rome NNP B-LOC
it PRP O
rained VBD O

Emmy NNP B-PER
Noether NNP I-PER
taught VBD O
"""


@pytest.fixture
def files(tmp_path):
    """Training data, and the name of a model that does not exist yet."""
    data = tmp_path / "train.txt"
    data.write_text(TRAIN)
    return str(data), str(tmp_path / "tagger.joblib")


def test_train_and_tag(files, tmp_path, capsys, monkeypatch):
    data, model = files
    assert main(["train", data, "-m", model, "--scheme", "BIO", "--test", data]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("3 sentences, ")
    assert "duality gap" in shown and "token accuracy 1.0000" in shown
    tagger = joblib.load(model)
    assert tagger[-1].forbidden_transitions_
    # the labels of a file with labels are kept, and predicted ones follow
    assert main(["tag", data, "-m", model]) == 0
    tagged = read_conll(capsys.readouterr().out.splitlines())
    assert [len(columns) for columns in tagged] == [4, 4, 4]
    assert all(columns[2] == columns[3] for columns in tagged)
    # without labels, from standard input, to a file
    lines = "".join(line.rpartition(" ")[0] + "\n" for line in TRAIN.splitlines())
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    output = tmp_path / "tagged.txt"
    assert main(["tag", "-", "-m", model, "-o", str(output)]) == 0
    assert capsys.readouterr().out == ""
    found = [columns[-1] for columns in read_conll(output)]
    assert found == [columns[-1] for columns in tagged]
    # every line with a token is written, and none is cut at a no-break space
    lines = "-DOCSTART- -X-\n\nAda\u00a0Lovelace NNP\n\tVBD\n"
    stream = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + lines.encode()), "ascii")
    monkeypatch.setattr(sys, "stdin", stream)
    assert main(["tag", "-", "-m", model, "-o", str(output), "--empty", "_"]) == 0
    written = output.read_text(encoding="utf-8").splitlines()
    assert [line.rpartition("\t")[0] for line in written] == [
        "-DOCSTART-\t-X-",
        "",
        "Ada\u00a0Lovelace\tNNP",
        "_\tVBD",
        "",
    ]
    assert main(["tag", data, "-m", model, "--test"]) == 0
    report = capsys.readouterr().out.splitlines()
    assert report[-1].split() == ["all", "1.0000", "1.0000", "1.0000", "3"]


def test_other_schemes_and_labels_that_are_no_chunks(tmp_path, capsys):
    model = str(tmp_path / "tagger.joblib")
    lines = TRAIN.replace("I-PER", "E-PER").replace("B-LOC", "S-LOC")
    (tmp_path / "iobes.txt").write_text(lines)
    tags = "".join(line.rpartition(" ")[0] + "\n" for line in TRAIN.splitlines())
    (tmp_path / "tags.txt").write_text(tags)
    for name, scheme, last in (
        ("iobes.txt", ["--scheme", "auto"], ["all", "1.0000", "1.0000", "1.0000", "3"]),
        ("tags.txt", [], ["weighted", "avg", "1.0000", "1.0000", "1.0000", "10"]),
    ):
        data = str(tmp_path / name)
        assert main(["train", data, "-m", model, *scheme, "--test", data]) == 0
        assert bool(joblib.load(model)[-1].forbidden_transitions_) == bool(scheme)
        shown = capsys.readouterr().out
        assert shown.splitlines()[-2 if not scheme else -1].split() == last
        assert ("not by chunks" in shown) == (name == "tags.txt")
    assert main(["train", data, "-m", model, "--scheme", "auto"]) == 2
    assert "'IN', which is of no scheme" in capsys.readouterr().err


def test_template_and_parameters_of_crfsuite(files, tmp_path, capsys):
    data, model = files
    template = tmp_path / "template"
    template.write_text("# words\nU00:%x[0,0]\nU01:%x[-1,0]/%x[0,1]\n\nB\nB1:%x[0,1]\n")
    arguments = ["train", data, "-m", model, "--template", str(template)]
    assert main([*arguments, "--c2", "0.3", "--min-count", "1"]) == 0
    crf = joblib.load(model)[-1]
    # alpha = 2 c2 / n
    assert (crf.loss, crf.alpha, crf.l1_ratio) == ("log", pytest.approx(0.2), 0.0)
    pairs = {name for name, _, _ in crf.pair_features_}
    assert pairs == {"B1:NNP", "B1:VBD", "B1:PRP"}
    assert main([*arguments, "--c1", "0.1", "--loss", "hinge"]) == 2
    assert "likelihood" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, message",
    [
        ("X00:%x[0,0]", "line 1: expected U, B or *"),
        ("U00:%x[0,0]\nU01:%x[0]", "line 2: expected U, B or *"),
        ("U00:%x[0,7]", "line 1: the line names column 7, and X has 2"),
        ("# nothing\nB", "no line that makes an attribute"),
    ],
)
def test_bad_template(files, tmp_path, capsys, text, message):
    data, model = files
    (tmp_path / "template").write_text(text)
    arguments = ["train", data, "-m", model, "--template", str(tmp_path / "template")]
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_bad_files(files, tmp_path, capsys):
    data, model = files
    assert main(["train", str(tmp_path / "none"), "-m", model]) == 2
    assert "none" in capsys.readouterr().err
    (tmp_path / "one").write_text("a\nb\n")
    assert main(["train", str(tmp_path / "one"), "-m", model]) == 2
    assert "one, line 1: expected 2 columns at least, a word" in capsys.readouterr().err
    late, empty = str(tmp_path / "late"), str(tmp_path / "empty")
    (tmp_path / "late").write_text("-DOCSTART-\n\n \t\n D\r\nb\n")
    (tmp_path / "empty").write_text("\n")
    for file, message in (
        (late, "late, line 4: expected"),
        (empty, "empty has no tokens"),
    ):
        assert main(["train", data, file, "-m", model]) == 2
        assert message in capsys.readouterr().err
        assert main(["train", data, "-m", model, "--test", file]) == 2
        assert message in capsys.readouterr().err
    assert main(["tag", data, "-m", data]) == 2
    assert "is not a model" in capsys.readouterr().err
    (tmp_path / "crfsuite").write_bytes(b"lCRF and more")
    assert main(["tag", data, "-m", str(tmp_path / "crfsuite")]) == 2
    assert "is no model file of CRFsuite" in capsys.readouterr().err
    joblib.dump([1], model)
    assert main(["tag", data, "-m", model]) == 2
    assert "'sksstruct train'" in capsys.readouterr().err
    main(["train", data, "-m", model])
    capsys.readouterr()
    assert main(["tag", str(tmp_path / "one"), "-m", model]) == 2
    assert "1 columns; the model was trained on 2" in capsys.readouterr().err
    assert main(["tag", str(tmp_path / "one"), "-m", model, "--test"]) == 2
    assert "one, line 1: expected 2 columns at least" in capsys.readouterr().err
    assert main(["tag", empty, "-m", model, "--test"]) == 2
    assert "empty has no tokens" in capsys.readouterr().err
    for columns in ([], ["--columns", "1,2"]):
        assert main(["tag", empty, "-m", model, *columns]) == 0
        assert capsys.readouterr().out == ""


def test_separators_comments_and_encodings(tmp_path, capsys):
    """Files that are read with an option, which is what an error names."""
    data, model = tmp_path / "train.txt", str(tmp_path / "tagger.joblib")
    lines = [
        "# id 1",
        "New Y\xf6rk City\tNNP\t\tB-LOC",
        "ran\tVBD\tx\tO",
        "",
        "# id 2",
        "",
    ]
    data.write_text("\n".join(lines), encoding="latin-1")
    train = ["train", str(data), "-m", model]
    given = []
    for message, *options in (
        ("is not UTF-8 text", "--encoding", "latin-1"),
        ("pass --comment '#'", "--comment", "#"),
        ("pass --separator '\\t'", "--separator", "\\t"),
        ("such as --empty '_'", "--empty", "_"),
    ):
        assert main([*train, *given]) == 2
        assert message in capsys.readouterr().err
        given += options
    assert main([*train, *given]) == 0
    out = tmp_path / "out.txt"
    assert main(["tag", str(data), "-m", model, "-o", str(out), *given]) == 0
    first, second, *_ = out.read_text(encoding="latin-1").split("\n")
    assert first == "New Y\xf6rk City\tNNP\t_\tB-LOC\tB-LOC"
    assert second == "ran\tVBD\tx\tO\tO"
    for wrong in ("--encoding=none", "--columns=0,1", "--columns=1,1", "--columns=a"):
        with pytest.raises(SystemExit):
            main([*train, wrong])
        assert "error: argument --" in capsys.readouterr().err


def test_columns_that_identify_tokens(tmp_path, capsys):
    data, model = str(tmp_path / "train.txt"), str(tmp_path / "tagger.joblib")
    with open(data, "w") as file:
        for k in range(40):
            file.write(
                f"{'ab'[k % 2]} {7 * k} {k % 3} id{k} x{k % 30} {'PQ'[k % 2]}\n\n"
            )
    train = ["train", data, "-m", model, "--test", data]
    assert main(train) == 0
    warning = capsys.readouterr().err
    assert "column 2 has numbers, such as '0'; column 4 has 40 values for 40" in warning
    assert "column 5 has 30 values" in warning and "column 3" not in warning
    assert "leave them out: --columns 1,3,6." in warning
    for columns in ("1,3,6", "1,2,3,4,5,6"):
        assert main([*train, "--columns", columns]) == 0
        assert not capsys.readouterr().err
    assert main([*train, "--columns", "1,6"]) == 0
    assert joblib.load(model)[0].n_columns_ == 1
    capsys.readouterr()
    assert main(["tag", data, "-m", model]) == 2
    assert "--columns says which" in capsys.readouterr().err
    assert main(["tag", data, "-m", model, "--columns", "1"]) == 0
    assert capsys.readouterr().out.startswith("a\t0\t0\tid0\tx0\tP\tP\n")
    assert main(["tag", data, "-m", model, "--columns", "1,6", "--test"]) == 0
    assert "token accuracy 1.0000" in capsys.readouterr().out
    assert main(["tag", data, "-m", model, "--columns", "7"]) == 2
    assert "train.txt has 6 columns" in capsys.readouterr().err
    assert main([*train, "--columns", "1"]) == 2
    assert "must name two columns" in capsys.readouterr().err


def test_work_that_could_not_be_kept_is_not_begun(files, tmp_path, capsys):
    data, model = files
    for name, message in ((tmp_path / "none" / "x", "no folder"), (tmp_path, "folder")):
        assert main(["train", data, "-m", str(name)]) == 2
        shown = capsys.readouterr()
        assert message in shown.err and not shown.out
    assert main(["train", data, "-m", model, "--test", str(tmp_path / "none")]) == 2
    assert not capsys.readouterr().out and not (tmp_path / "tagger.joblib").exists()
    assert main(["train", data, "-m", model]) == 0
    assert main(["tag", data, "-m", model, "-o", str(tmp_path / "none" / "x")]) == 2
    assert "no folder" in capsys.readouterr().err


def test_template_with_a_byte_order_mark(files, tmp_path, capsys):
    data, model = files
    template = tmp_path / "template"
    template.write_text("U0:%x[0,0]\r\nB\r\n", encoding="utf-8-sig")
    assert main(["train", data, "-m", model, "--template", str(template)]) == 0
    assert "U0:Ada" in joblib.load(model)[1].get_feature_names_out().tolist()


def test_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == __version__ + "\n"


@pytest.mark.slow
def test_reader_that_stops(files):
    data, model = files
    main(["train", data, "-m", model])
    arguments = [sys.executable, "-m", "sksstruct", "tag", data, "-m", model]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_column_features():
    X = [(["He", "ran"], ["PRP", "VBD"]), (["Go"], ["VB"])]
    template = "U0:%x[-2,0]|%x[1,1]\nBx:%x[0,1]\n"
    features = ColumnFeatures(template).fit(X)
    assert features.has_pairs_ and features.n_columns_ == 2
    assert features.transform(X) == [
        [["U0:_B-2|VBD", "Bx:PRP"], ["U0:_B-1|_B+1", "Bx:VBD"]],
        [["U0:_B-2|_B+1", "Bx:VB"]],
    ]
    usual = clone(features).set_params(template=None).fit_transform(X)
    assert {"w[0]=he", "w[1]=ran", "shape[0]=Xx", "column1[1]=VBD"} <= set(usual[0][0])
    assert "w:suffix=He" in usual[0][0] and "column1[-1]=PRP" in usual[0][1]
    for bad, message in (
        ([], "X is empty"),
        (["He"], r"X\[0\] must be a tuple"),
        ([X[0], (["a"],)], r"X\[1\] must have 2 columns, got 1"),
        ([(["a"], ["b", "c"])], r"X\[0\]\[1\] must have 1 tokens"),
        ([(["a"], [np.nan])], r"X\[0\]\[1\]\[0\] must be a string"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            ColumnFeatures().fit(bad)


def test_an_interrupt_keeps_what_was_learned(files, tmp_path, capsys, monkeypatch):
    fit = ChainCRF.fit

    def interrupted(self, X, y, **params):
        fit(self, X, y, **params)
        raise KeyboardInterrupt

    train, model = str(files[0]), tmp_path / "model"
    monkeypatch.setattr(ChainCRF, "fit", interrupted)
    assert main(["train", train, "-m", str(model)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert len(joblib.load(model)[-1].classes_) > 1
    # nothing was learned
    monkeypatch.setattr(ChainCRF, "fit", lambda *_, **__: interrupt())
    model.unlink()
    assert main(["train", train, "-m", str(model)]) == 130
    assert not model.exists()


def interrupt():
    raise KeyboardInterrupt


def test_column_features_that_are_not_fitted():
    tagger = Tagger([("columns", ColumnFeatures()), ("v", SequenceVectorizer())])
    with pytest.raises(NotFittedError, match="ColumnFeatures"):
        tagger[0].transform([["a"]])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7])
def test_usual_features_are_those_of_the_functions(size):
    words = ["Ada", "x", "McCain-99", "\u0130.", "", "ab", "Ada"][:size]
    tags = ["A", "B", "", "A", "C", "B", "B"][:size]
    found = ColumnFeatures().fit_transform([(words, tags), (["z"], ["A"])])
    columns = {
        "w": [word.lower() for word in words],
        "shape": [row[0].partition("=")[2] for row in shape_features(words)],
        "column1": tags,
    }
    templates = [[(name, d)] for name in ("w", "shape") for d in range(-2, 3)]
    templates += [[("column1", d)] for d in range(-1, 2)]
    rows = window_features(columns, templates)
    for row, affixes in zip(rows, affix_features(words, lengths=[2, 3]), strict=True):
        row += affixes
    assert found[0] == rows
    # what is kept of words is not changed by what callers do
    if rows:
        found[0][0].clear()
        assert ColumnFeatures().fit_transform([(words, tags)])[0] == rows


TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,1]\n"


@pytest.mark.parametrize("template", [None, TEMPLATE])
@pytest.mark.parametrize("kind", ["crfsuite", "json"])
def test_models_in_other_formats(kind, template, files, tmp_path, capsys):
    """The ending of the file says which, and labels are the same."""
    data, model = files
    options = []
    if template:
        (tmp_path / "template").write_text(template)
        options = ["--template", str(tmp_path / "template")]
    for name in (model, model + f".{kind}"):
        command = ["train", data, "-m", name, "--scheme", "bio", "--loss", "log"]
        assert main([*command, *options]) == 0
    new = tmp_path / "new.txt"
    new.write_text("Noether NNP\nin IN\nRome NNP\n\nAda NNP\n")
    tagged = []
    for name in (model, model + f".{kind}"):
        capsys.readouterr()
        more = options if name.endswith(".crfsuite") else []
        assert main(["tag", str(new), "-m", name, *more]) == 0
        assert main(["tag", data, "-m", name, "--test", *more]) == 0
        tagged.append(capsys.readouterr().out)
    assert tagged[0] == tagged[1] and "token accuracy 1.0000" in tagged[0]


def test_mistakes_with_models_of_crfsuite(files, tmp_path, capsys):
    data, model = files
    name = model + ".crfsuite"
    (tmp_path / "template").write_text("B0:%x[0,0]\nU0:%x[0,2]\n")
    template = ["--template", str(tmp_path / "template")]
    assert main(["train", data, "-m", name]) == 0
    more = tmp_path / "more.txt"
    more.write_text(TRAIN.replace(" NNP", " NNP NNP").replace(" VBD", " VBD VBD")
                    .replace(" IN", " IN IN").replace(" PRP", " PRP PRP"))  # fmt: skip
    capsys.readouterr()
    for command, message in (
        (["train", str(more), "-m", name, *template], "no B lines of templates"),
        (["tag", data, "-m", model, *template], "No such file"),
        (
            ["tag", data, "-m", name, *template],
            "has no attribute that begins with B0: or U0:",
        ),
    ):
        assert main(command) == 2
        assert message in capsys.readouterr().err
    # of sentences without a known word, which are no mistake, and of too few columns
    (tmp_path / "words").write_text("xyz 9\n")
    (tmp_path / "empty").write_text("\n")
    for file in ("words", "empty"):
        assert main(["tag", str(tmp_path / file), "-m", name]) == 0
    assert capsys.readouterr().out == "xyz\t9\tO\n\n"
    (tmp_path / "template").write_text("U0:%x[0,1]\n")
    assert main(["train", data, "-m", name, *template]) == 0
    (tmp_path / "words").write_text("xyz\n")
    assert main(["tag", str(tmp_path / "words"), "-m", name, *template]) == 2
    assert "the template names column 1, and the file has 1" in capsys.readouterr().err
    assert main(["train", data, "-m", model]) == 0
    assert main(["tag", data, "-m", model, *template]) == 2
    assert "--template is for models of CRFsuite" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["crfsuite", "json"])
def test_tagging_starts_without_scikit_learn(kind, files, tmp_path):
    data, model = files
    name = f"{model}.{kind}"
    assert main(["train", data, "-m", name]) == 0
    code = (
        "import sys, time\n"
        "begin = time.process_time()\n"
        "from sksstruct.commands import main\n"
        f"assert main(['tag', {data!r}, '-m', {name!r}]) == 0\n"
        "seconds = time.process_time() - begin\n"
        "heavy = {'scipy', 'joblib', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert seconds < 0.6, seconds"
    )
    root = Path(sksstruct.__file__).parents[1]
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, check=True, capture_output=True, text=True, cwd=root)
    assert "Ada\tNNP\tB-PER\tB-PER" in done.stdout


@pytest.mark.parametrize("template", [None, TEMPLATE + "U2:a\n"])
def test_models_in_json_without_scikit_learn(template, tmp_path):
    """Labels are those of the tagger, among equal scores, too."""
    random = np.random.default_rng(0)
    words, tags, labels = ["a", "B", "c1", "dd"], ["X", "Y"], ["p", "q", "r", "s", "t"]
    sizes = random.integers(1, 9, size=700).tolist()
    X = [tuple(random.choice(x, n).tolist() for x in (words, tags)) for n in sizes]
    y = [random.choice(labels, n).tolist() for n in sizes]
    steps = ColumnFeatures(template), SequenceVectorizer(), ChainCRF(max_iter=2)
    tagger = Tagger([(str(k), step) for k, step in enumerate(steps)]).fit(
        X[:50], y[:50]
    )
    name = str(tmp_path / "tagger.json")
    for decimals in (9, 1, 0):
        # with few digits there are sums that are equal
        for part in ("coef_", "transitions_", "intercept_", "start_", "end_"):
            value = getattr(tagger[-1], part)
            setattr(tagger[-1], part, np.round(value, decimals))
        tagger.to_json(name)
        light = JsonTagger(name)
        assert light.n_columns == 2
        expected = Tagger.from_json(name).predict(X)
        assert light.predict(X) == [row.tolist() for row in expected]


@pytest.mark.parametrize(
    "change",
    [
        {"loss": "log", "risk": "hamming"},
        {"forbidden_transitions": "bio"},
        {"order": 2},
        {"transition_features": "w"},
        "labels",
        "float32",
    ],
)
def test_models_in_json_that_need_scikit_learn(change, files, tmp_path, capsys):
    data, _model = files
    sentences = read_conll(data)
    X, y = [s[:-1] for s in sentences], [s[-1] for s in sentences]
    steps = [ColumnFeatures(), SequenceVectorizer(), ChainCRF()]
    if change == "labels":
        y = [list(map(len, row)) for row in y]
    elif change == "float32":
        steps[1].set_params(dtype=np.float32)
    else:
        steps[-1].set_params(**change)
    tagger = Tagger([(str(k), step) for k, step in enumerate(steps)]).fit(X, y)
    tagger.to_json(tmp_path / "tagger.json")
    with pytest.raises(UNREADABLE):
        JsonTagger(tmp_path / "tagger.json")
    if change != "labels":
        assert main(["tag", data, "-m", str(tmp_path / "tagger.json")]) == 0
        lines = capsys.readouterr().out.splitlines()
        found = [line.split("\t")[-1] for line in lines if line]
        assert found == [label for row in tagger.predict(X) for label in row]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"format_version":1', '"format_version":2', "the format and its version"),
        ('"n_columns":2', '"n_columns":0', "n_columns must be positive"),
        ('"n_columns":2', '"n_columns":true', "n_columns must be int"),
        ('"labels":["B-LOC"', '"labels":["O"', "must be different strings"),
        ('"labels":["B-LOC",', '"labels":[', "the counts must sum to"),
        ('"start":[', '"start":[NaN,', "NaN is not JSON"),
        ('"start":[', '"start":[1e999,', "must be a finite number"),
        ('"columns":[', '"columns":[-1,', "negative number"),
        ('"columns":[', '"columns":[77,', "coef, values must have"),
        ('"separator":"="', '"separator":3', "separator"),
        ('"features":["', '"features":[5,"', "must be different strings"),
        ('"template":null', '"template":5', "template"),
        ('"start":[', f'"start":[{10**400},', "must be a finite number"),
        ('"alpha_":', '"alpha_":NaN,"a":', "NaN is not JSON"),
        ("{", "[" * 100_000, "is no tagger in JSON"),
    ],
)
def test_damaged_models_in_json(old, new, message, files, tmp_path, capsys):
    data, _model = files
    name = tmp_path / "tagger.json"
    assert main(["train", data, "-m", str(name)]) == 0
    text = name.read_text()
    assert old in text
    name.write_text(text.replace(old, new, 1))
    with pytest.raises(UNREADABLE):
        JsonTagger(name)
    assert main(["tag", data, "-m", str(name)]) == 2
    assert message in capsys.readouterr().err


def test_scores_in_json_that_are_too_large(files, capsys):
    data, model = files
    name = Path(model + ".json")
    assert main(["train", data, "-m", str(name)]) == 0
    text = name.read_text()
    document = json.loads(text)
    chain = document["steps"][-1]["fitted"]
    chain["coef"]["values"] = [1e308] * len(chain["coef"]["values"])
    name.write_text(json.dumps(document))
    for jobs in ([], ["--jobs", "1"]):
        assert main(["tag", data, "-m", str(name), *jobs]) == 2
        assert "X[0]: its scores are too large" in capsys.readouterr().err
