"""``sksstruct train`` and ``sksstruct tag``: a tagger of CoNLL columns in a file."""

import os
import sys
import time
from itertools import chain

import joblib
from sklearn.utils.validation import check_is_fitted

from sksstruct.datasets import read_conll
from sksstruct.estimators import ChainCRF, Tagger, crfsuite_parameters
from sksstruct.feature_extraction import ColumnFeatures, SequenceVectorizer
from sksstruct.metrics import (
    chunk_classification_report,
    flat_classification_report,
    token_accuracy_score,
)
from sksstruct.utils._spans import SpanLabels


def add_parsers(commands):
    """Add the commands to a parser.

    Parameters
    ----------
    commands : object
        What ``add_subparsers`` returned.
    """
    train = commands.add_parser(
        "train",
        help="train a tagger on a file of columns",
        description="Train a tagger. A line has the columns of one token, separated "
        "by spaces or tabs, the word first and the label last. An empty line ends a "
        "sentence.",
    )
    train.add_argument("file", nargs="+", help="training data, also as .gz")
    train.add_argument("-m", "--model", required=True, help="output file")
    train.add_argument("--template", help="CRF++ template (default: built-in features)")
    train.add_argument(
        "--min-count", type=int, default=1, help="drop rarer features (default: 1)"
    )
    train.add_argument(
        "--loss", choices=["hinge", "log"], help="'log': likelihood (default: hinge)"
    )
    train.add_argument("--alpha", type=float, help="regularization (default: auto)")
    train.add_argument("--c1", type=float, help="c1 of CRFsuite; selects --loss log")
    train.add_argument("--c2", type=float, help="c2 of CRFsuite; selects --loss log")
    train.add_argument(
        "--scheme", type=str.lower, choices=["auto", "bio", "iob1", "iobes", "bilou"],
        help="allow only well-formed labels of this scheme (auto: that of the data)",
    )  # fmt: skip
    train.add_argument("--test", help="file to evaluate on, by chunks")
    train.add_argument("--max-seconds", type=float, help="time limit of training")
    train.add_argument("--jobs", type=int, help="number of threads (default: 1)")
    train.add_argument("--empty", help="text to put in place of empty columns")
    train.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    train.add_argument("-v", "--verbose", action="store_true", help="show progress")
    train.set_defaults(run=run_train)

    tag = commands.add_parser(
        "tag",
        help="label the sentences of a file",
        description="Append a column of predicted labels to the columns of a file. "
        "Reading a model runs code, unless it is JSON: use only models that you trust.",
    )
    tag.add_argument("file", help="data, also as .gz; - for standard input")
    tag.add_argument(
        "-m",
        "--model",
        required=True,
        help="model file of train, or its export to JSON",
    )
    tag.add_argument("-o", "--output", help="output file (default: standard output)")
    tag.add_argument(
        "--test", action="store_true",
        help="the last column has true labels; print a report instead",
    )  # fmt: skip
    tag.add_argument("--empty", help="text to put in place of empty columns")
    tag.add_argument("--jobs", type=int, help="number of threads (default: 1)")
    tag.set_defaults(run=run_tag)


def run_train(options):
    """Train a tagger and write it.

    Parameters
    ----------
    options : argparse.Namespace
        The arguments.

    Returns
    -------
    code : int
        0, or 130 if training was interrupted; the model is what it had learned then.
    """
    started = time.perf_counter()
    # before the work that would be lost
    check_folder(options.model)
    test = None
    if options.test is not None:
        test = _labeled(read_conll(options.test, empty=options.empty))
    X, y = _labeled(
        [s for name in options.file for s in read_conll(name, empty=options.empty)]
    )
    columns = ColumnFeatures(_text(options.template)).fit(X)
    vectorizer = SequenceVectorizer(min_count=options.min_count)
    crf = ChainCRF(**_parameters(options, len(X)))
    if columns.has_pairs_:
        crf.set_params(transition_features="B")
    tagger = Tagger([("columns", columns), ("features", vectorizer), ("tagger", crf)])
    code = 0
    try:
        tagger.fit(X, y)
    except KeyboardInterrupt:
        # fit leaves a tagger that can be used, if it got so far
        if not hasattr(crf, "coef_"):
            raise
        code = 130
        print("interrupted: the model is what was learned so far", file=sys.stderr)
    joblib.dump(tagger, options.model)
    print(
        f"{len(X)} sentences, {crf.n_features_in_} features, {len(crf.classes_)} labels"
    )
    print(
        f"{crf.n_iter_} passes, objective {crf.objective_:.6g}, duality gap "
        f"{crf.dual_gap_:.2g}, {time.perf_counter() - started:.1f} s"
    )
    if test is not None:
        _report(tagger, *test)
    return code


def check_folder(name):
    """Refuse the name of a file to write that is a folder, or is in none.

    Parameters
    ----------
    name : str
        The name.
    """
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name} is a folder")
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{name}: there is no folder {folder}")


def _text(name):
    if name is None:
        return None
    # some editors begin a file with a mark, which is not part of the text
    with open(name, encoding="utf-8-sig") as file:
        return file.read()


def _parameters(options, n):
    """Parameters of the tagger."""
    if options.c1 is not None or options.c2 is not None:
        if options.alpha is not None or options.loss == "hinge":
            raise ValueError("--c1 and --c2 are for the likelihood, without --alpha")
        c1 = 0.0 if options.c1 is None else options.c1
        c2 = 1.0 if options.c2 is None else options.c2
        # its regularization; the model is the one with all weights
        same = crfsuite_parameters(n, c1=c1, c2=c2)
        parameters = {name: same[name] for name in ("alpha", "l1_ratio")}
        parameters["loss"] = "log"
    else:
        alpha = "auto" if options.alpha is None else options.alpha
        parameters = {"alpha": alpha, "loss": options.loss or "hinge"}
    return parameters | {
        "forbidden_transitions": options.scheme,
        "max_seconds": options.max_seconds,
        "n_jobs": options.jobs,
        "random_state": options.seed,
        "verbose": int(options.verbose),
    }


def _labeled(sentences):
    """Columns and labels of sentences whose last column has labels."""
    if len(sentences[0]) < 2:
        raise ValueError("expected two columns at least, a word and a label")
    return [s[:-1] for s in sentences], [s[-1] for s in sentences]


def run_tag(options):
    """Label sentences, and write them or a report.

    Parameters
    ----------
    options : argparse.Namespace
        The arguments.

    Returns
    -------
    code : int
        0.
    """
    if options.output is not None:
        check_folder(options.output)
    tagger = _load(options.model)
    tagger[-1].set_params(n_jobs=options.jobs)
    n_columns = tagger[0].n_columns_
    # all lines with a token are written again
    sentences = read_conll(
        _standard_input() if options.file == "-" else options.file,
        empty=options.empty,
        keep_docstart=not options.test,
    )
    found = len(sentences[0])
    if options.test:
        if found != n_columns + 1:
            raise ValueError(f"{found} columns; expected {n_columns} and a label")
        _report(tagger, *_labeled(sentences))
        return 0
    if found not in (n_columns, n_columns + 1):
        raise ValueError(
            f"{found} columns; the model was trained on {n_columns}, and a label"
        )
    labels = tagger.predict([s[:n_columns] for s in sentences])
    if options.output is None:
        _write(sys.stdout, sentences, labels)
    else:
        with open(options.output, "w", encoding="utf-8") as file:
            _write(file, sentences, labels)
    return 0


def _standard_input():
    """Lines of standard input, read as those of a file are."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8-sig", newline="\n")
    return sys.stdin


def load_model(name):
    """An object from a file of joblib, or a tagger from JSON.

    Parameters
    ----------
    name : str
        File; that of JSON ends with ".json" or ".json.gz".

    Returns
    -------
    model : object
        What the file holds.
    """
    if name.endswith((".json", ".json.gz")):
        return Tagger.from_json(name)
    try:
        return joblib.load(name)
    except OSError:
        raise
    except Exception as error:  # whatever unpickling runs into
        with open(name, "rb") as file:
            if file.read(4) == b"lCRF":
                raise ValueError(
                    f"{name} is a model of CRFsuite, which tags attributes and not "
                    "words: use Tagger.from_crfsuite"
                ) from None
        raise ValueError(f"{name} is not a model: {error!r}") from None


def _load(name):
    """A tagger of columns from a file."""
    tagger = load_model(name)
    if not isinstance(tagger, Tagger) or not isinstance(tagger[0], ColumnFeatures):
        raise ValueError(f"{name} is not a model that 'sksstruct train' wrote")
    check_is_fitted(tagger)
    return tagger


def _write(file, sentences, labels):
    """Columns, and labels as one more, separated by tabs."""
    for columns, row in zip(sentences, labels, strict=True):
        for token in zip(*columns, row, strict=True):
            file.write("\t".join(token) + "\n")
        file.write("\n")


def _report(tagger, X, y):
    """Print how well sentences are labeled."""
    predicted = tagger.predict(X)
    print(f"token accuracy {token_accuracy_score(y, predicted):.4f}")
    try:
        SpanLabels(dict.fromkeys(chain.from_iterable(y)))
    except ValueError as error:
        # such as parts of speech
        print(f"not by chunks, as {error}")
        print(flat_classification_report(y, predicted, digits=4, zero_division=0.0))
    else:
        print(chunk_classification_report(y, predicted, digits=4))
