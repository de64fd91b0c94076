"""``sksstruct export``: write a saved tagger as JSON or as a model of CRFsuite."""

import os

from sklearn.pipeline import Pipeline

from sksstruct.commands._models import load_model
from sksstruct.commands._reading import check_folder
from sksstruct.estimators import CalibratedTagger, ChainCRF, Tagger


def add_parsers(commands):
    """Add the command ``export`` to a parser.

    Parameters
    ----------
    commands : object
        Result of ``add_subparsers``.
    """
    export = commands.add_parser(
        "export",
        help="write a tagger for other programs and languages",
        description="Write a tagger that joblib saved as a model file of CRFsuite or "
        "as JSON. Reading a model runs code: use only models that you trust.",
    )
    export.add_argument("model", help="model file, as train and joblib write it")
    export.add_argument(
        "--to", required=True, choices=["crfsuite", "json"], help="format to write"
    )
    export.add_argument(
        "-o", "--output",
        help="output file, .json.gz is compressed (default: MODEL.crfsuite or .json)",
    )  # fmt: skip
    export.set_defaults(run=run)


def run(options):
    """Read a saved tagger, and write it in another format.

    Parameters
    ----------
    options : argparse.Namespace
        The arguments.

    Returns
    -------
    code : int
        0.
    """
    stem = os.path.splitext(options.model.removesuffix(".gz"))[0]
    output = options.output or f"{stem}.{options.to}"
    check_folder(output)
    tagger = load_model(options.model)
    if isinstance(tagger, CalibratedTagger):
        tagger = tagger.estimator_
    if isinstance(tagger, Pipeline):
        tagger = Tagger(tagger.steps)
    if not isinstance(tagger, Tagger | ChainCRF):
        raise ValueError(
            f"{options.model} has a {type(tagger).__name__}; expected a Tagger, a "
            "pipeline, a ChainCRF or a CalibratedTagger"
        )
    if options.to == "json":
        tagger.to_json(output)
    else:
        tagger.to_crfsuite(output)
    print(f"wrote {output}, {os.path.getsize(output)} bytes")
    return 0
