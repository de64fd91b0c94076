"""``sksstruct tag``: predict labels for a file of CoNLL columns."""

import sys

from sksstruct.commands._column_tagger import ColumnTagger
from sksstruct.commands._reading import add_reading, check_folder, read, template_of
from sksstruct.utils._files import with_mark

_CHOICE = ". --columns says which to use"


def add_parsers(commands):
    """Add the command ``tag`` to a parser.

    Parameters
    ----------
    commands : object
        Result of ``add_subparsers``.
    """
    tag = commands.add_parser(
        "tag",
        help="label the sentences of a file",
        description="Append a column of predicted labels to the columns of a file. "
        "Reading a model runs code, unless it is JSON or of CRFsuite: use only models "
        "that you trust.",
    )
    tag.add_argument("file", help="data, also as .gz; - for standard input")
    tag.add_argument(
        "-m",
        "--model",
        required=True,
        help="model file of train, or its export to JSON or CRFsuite. A model of "
        "CRFsuite, and one in JSON without constraints, need no import of scikit-learn",
    )
    tag.add_argument(
        "--template", help="template of train, for a model of CRFsuite that had one"
    )
    tag.add_argument("-o", "--output", help="output file (default: standard output)")
    tag.add_argument(
        "--test", action="store_true",
        help="the last column has true labels; print a report instead",
    )  # fmt: skip
    add_reading(tag, "as the model was trained; with --test also the label")
    tag.add_argument("--jobs", type=int, help="number of threads (default: 1)")
    tag.set_defaults(run=run_tag)


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
    tagger, n_columns = _load(options)
    # the output has all lines with tokens, including -DOCSTART-
    whole, sentences = read(
        options,
        _standard_input(options.encoding) if options.file == "-" else options.file,
        least=1 + options.test,
        keep_docstart=not options.test,
    )
    # a file without tokens has an empty output, and no number of columns to check
    n_found = len(sentences[0]) if sentences else n_columns or 0
    if n_columns is None:
        n_columns = n_found - options.test
    if options.test:
        if n_found != n_columns + 1:
            raise ValueError(
                f"{options.file} has {n_found} columns; expected {n_columns} and a "
                f"label{_CHOICE}"
            )
        # `_models` imports scikit-learn
        from sksstruct.commands._models import labeled, report

        report(tagger, *labeled(sentences))
        return 0
    if n_found not in (n_columns, n_columns + 1):
        raise ValueError(
            f"{options.file} has {n_found} columns; the model was trained on "
            f"{n_columns}, and a label{_CHOICE}"
        )
    labels = tagger.predict([s[:n_columns] for s in sentences]) if sentences else []
    if options.output is None:
        _write(sys.stdout, whole, labels)
    else:
        with open(options.output, "w", encoding=options.encoding) as file:
            _write(file, whole, labels)
    return 0


def _load(options):
    """Load a tagger of columns; return it and its number of columns, if known."""
    with open(options.model, "rb") as file:
        is_crfsuite = file.read(4) == b"lCRF"
    if is_crfsuite:
        return ColumnTagger(options.model, template_of(options.template)), None
    if options.template is not None:
        raise ValueError("--template is for models of CRFsuite: others have their own")
    if options.model.endswith(".json") and not options.test and options.jobs is None:
        # `_json_tagger` imports NumPy
        from sksstruct.commands._json_tagger import UNREADABLE, JsonTagger

        try:
            light = JsonTagger(options.model)
        except UNREADABLE:
            # `load` reads models of all kinds, or says where the file is damaged
            pass
        else:
            return light, light.n_columns
    # `_models` imports scikit-learn
    from sksstruct.commands._models import load

    tagger = load(options.model)
    tagger[-1].set_params(n_jobs=options.jobs)
    return tagger, tagger[0].n_columns_


def _standard_input(encoding):
    """Return standard input, with its encoding and line ends set as for a file."""
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding=with_mark(encoding), newline="\n")
    return sys.stdin


def _write(file, sentences, labels):
    """Write the columns and, as the last column, the labels, separated by tabs."""
    for columns, row in zip(sentences, labels, strict=True):
        for token in zip(*columns, row, strict=True):
            file.write("\t".join(token) + "\n")
        file.write("\n")
