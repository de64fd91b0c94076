"""``sksstruct train``: train a tagger on files of CoNLL columns."""

import sys
import time
from itertools import chain

import joblib

from sksstruct.commands._models import labeled, report
from sksstruct.commands._reading import add_reading, check_folder, read, template_of
from sksstruct.estimators import ChainCRF, Tagger, crfsuite_parameters
from sksstruct.feature_extraction import ColumnFeatures, SequenceVectorizer

# A column of features with fewer different values than this raises no warning.
_FEW = 20


def add_parsers(commands):
    """Add the command ``train`` to a parser.

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
    train.add_argument(
        "-m", "--model", required=True,
        help="output file: .crfsuite, .json or .json.gz, others by joblib",
    )  # fmt: skip
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
    add_reading(train, "the word first and the label last")
    train.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    train.add_argument("-v", "--verbose", action="store_true", help="show progress")
    train.set_defaults(run=run_train)


def run_train(options):
    """Train a tagger and write it.

    Parameters
    ----------
    options : argparse.Namespace
        The arguments.

    Returns
    -------
    code : int
        0, or 130 if training was interrupted; the model then has the weights at the
        interrupt.
    """
    started = time.perf_counter()
    # a wrong name is an error before the training, not after it
    check_folder(options.model)
    test = None
    if options.test is not None:
        test = labeled(read(options, options.test, 2)[1])
    if options.columns is not None and len(options.columns) < 2:
        raise ValueError("--columns must name two columns at least, word and label")
    X, y = labeled([s for name in options.file for s in read(options, name, 2)[1]])
    if options.columns is None and options.template is None:
        _look_at_columns(X)
    columns = ColumnFeatures(template_of(options.template)).fit(X)
    vectorizer = SequenceVectorizer(min_count=options.min_count)
    crf = ChainCRF(**_parameters(options, len(X)))
    if columns.has_pairs_:
        # an impossible export is refused before the training, not after it
        if options.model.endswith(".crfsuite"):
            raise ValueError(f"{options.model}: CRFsuite has no B lines of templates")
        crf.set_params(transition_features="B")
    tagger = Tagger([("columns", columns), ("features", vectorizer), ("tagger", crf)])
    code = 0
    try:
        tagger.fit(X, y)
    except KeyboardInterrupt:
        # an interrupted fit sets its last weights, unless there were none yet
        if not hasattr(crf, "coef_"):
            raise
        code = 130
        print("interrupted: the model is what was learned so far", file=sys.stderr)
    if options.model.endswith(".crfsuite"):
        tagger.to_crfsuite(options.model)
    elif options.model.endswith((".json", ".json.gz")):
        tagger.to_json(options.model)
    else:
        joblib.dump(tagger, options.model)
    print(
        f"{len(X)} sentences, {crf.n_features_in_} features, {len(crf.classes_)} labels"
    )
    print(
        f"{crf.n_iter_} passes, objective {crf.objective_:.6g}, duality gap "
        f"{crf.dual_gap_:.2g}, {time.perf_counter() - started:.1f} s"
    )
    if test is not None:
        report(tagger, *test)
    return code


def _parameters(options, n):
    """Return the parameters of the `ChainCRF`, from the options."""
    if options.c1 is not None or options.c2 is not None:
        if options.alpha is not None or options.loss == "hinge":
            raise ValueError("--c1 and --c2 are for the likelihood, without --alpha")
        c1 = 0.0 if options.c1 is None else options.c1
        c2 = 1.0 if options.c2 is None else options.c2
        # only the regularization is that of CRFsuite: weights exist also for pairs that
        # do not occur in the training data
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


def _look_at_columns(X):
    """Warn of columns whose values identify tokens instead of describing them."""
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
