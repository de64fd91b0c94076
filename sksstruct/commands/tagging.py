"""``sksstruct train`` and ``sksstruct tag``: a tagger of CoNLL columns in a file."""

import codecs
import os
import sys
import time
from itertools import chain

import joblib
from sklearn.utils.validation import check_is_fitted

from sksstruct.datasets._conll import ConllReader
from sksstruct.estimators import ChainCRF, Tagger, crfsuite_parameters
from sksstruct.feature_extraction import ColumnFeatures, SequenceVectorizer
from sksstruct.metrics import (
    chunk_classification_report,
    flat_classification_report,
    token_accuracy_score,
)
from sksstruct.utils._files import lines_of, with_mark
from sksstruct.utils._spans import SpanLabels

# Fewer different values than this are no reason to doubt a column of features.
_FEW = 20
_CHOICE = ". --columns says which to use"


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
    _add_reading(train, "the word first and the label last")
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
    _add_reading(tag, "as the model was trained; with --test also the label")
    tag.add_argument("--jobs", type=int, help="number of threads (default: 1)")
    tag.set_defaults(run=run_tag)


def _add_reading(parser, which):
    """Add the options that tell how files of columns are read."""
    parser.add_argument(
        "--columns", type=_numbers,
        help=f"numbers of the columns to use, such as 1,4: {which} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--separator", type=lambda text: text.replace("\\t", "\t"),
        help=r"column separator, such as '\t' (default: spaces and tabs)",
    )  # fmt: skip
    parser.add_argument("--comment", help="skip lines that begin with this text")
    parser.add_argument("--empty", help="text to put in place of empty columns")
    parser.add_argument(
        "--encoding", type=_encoding, default="utf-8",
        help="encoding of files with columns (default: utf-8)",
    )  # fmt: skip


def _numbers(text):
    """Indices of columns, of a list of numbers that begin with 1."""
    numbers = [int(part) - 1 for part in text.split(",")]
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def _encoding(name):
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError from None


def _read(options, source, least=1, **parameters):
    """Sentences of a file, with all of their columns and with those to use."""
    reader = ConllReader(
        separator=options.separator, comment=options.comment, empty=options.empty,
        encoding=options.encoding, advice="--{} {}", least=least, **parameters,
    )  # fmt: skip
    sentences = reader.read(source)
    if not sentences:
        if least > 1:
            raise ValueError(f"{source}: no tokens")
        return [], []
    if options.columns is None:
        return sentences, sentences
    if max(options.columns) >= reader.n_columns:
        raise ValueError(
            f"--columns names column {max(options.columns) + 1}; "
            f"the file has {reader.n_columns}"
        )
    return sentences, [tuple(s[k] for k in options.columns) for s in sentences]


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
        test = _labeled(_read(options, options.test, 2)[1])
    if options.columns is not None and len(options.columns) < 2:
        raise ValueError("--columns must name two columns at least, word and label")
    X, y = _labeled([s for name in options.file for s in _read(options, name, 2)[1]])
    if options.columns is None and options.template is None:
        _look_at_columns(X)
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
    return "".join(lines_of(name))


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
    return [s[:-1] for s in sentences], [s[-1] for s in sentences]


def _look_at_columns(X):
    """Warn of columns that identify tokens and do not describe them."""
    n, doubts = len(X[0]), {}
    for k in range(1, n):
        values = list(chain.from_iterable(s[k] for s in X))
        found = dict.fromkeys(values)
        if len(found) < _FEW:
            continue
        if all(map(_is_number, found)):
            doubts[k] = f"column {k + 1} has numbers, such as {values[0]!r:.40}"
        elif 2 * len(found) > len(values):
            doubts[k] = (
                f"column {k + 1} has {len(found)} values for {len(values)} tokens, "
                f"such as {values[0]!r:.40}"
            )
    if doubts:
        rest = ",".join(str(k + 1) for k in range(n + 1) if k not in doubts)
        print(
            f"warning: each value is a feature, and {'; '.join(doubts.values())}. To "
            f"leave them out: --columns {rest}. Without this warning: --columns "
            f"{','.join(map(str, range(1, n + 2)))}",
            file=sys.stderr,
        )


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


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
    whole, sentences = _read(
        options,
        _standard_input(options.encoding) if options.file == "-" else options.file,
        least=1 + options.test,
        keep_docstart=not options.test,
    )
    # a file without tokens has no labels to add
    found = len(sentences[0]) if sentences else n_columns
    if options.test:
        if found != n_columns + 1:
            raise ValueError(
                f"{found} columns; expected {n_columns} and a label{_CHOICE}"
            )
        _report(tagger, *_labeled(sentences))
        return 0
    if found not in (n_columns, n_columns + 1):
        raise ValueError(
            f"{found} columns; the model was trained on {n_columns}, and a label"
            f"{_CHOICE}"
        )
    labels = tagger.predict([s[:n_columns] for s in sentences]) if sentences else []
    if options.output is None:
        _write(sys.stdout, whole, labels)
    else:
        with open(options.output, "w", encoding=options.encoding) as file:
            _write(file, whole, labels)
    return 0


def _standard_input(encoding):
    """Lines of standard input, read as those of a file are."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding=with_mark(encoding), newline="\n")
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
        raise ValueError(f"{name} is not a model: {error!r:.80}") from None


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
