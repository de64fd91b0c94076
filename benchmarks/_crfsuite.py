"""Training with python-crfsuite, timed."""

import tempfile
from pathlib import Path

from _common import Clock

try:
    import pycrfsuite
except ImportError:
    pycrfsuite = None
    print("python-crfsuite is not installed: no comparison")


def train_crfsuite(items, labels, algorithm, parameters):
    """Train on prepared items.

    Parameters
    ----------
    items : list of pycrfsuite.ItemSequence
        Attributes.
    labels : list of list of str
        Labels.
    algorithm : str
        Name of the algorithm.
    parameters : dict
        Its parameters, where they are not the default.

    Returns
    -------
    tagger : pycrfsuite.Tagger
        The trained tagger.
    seconds : float
        CPU seconds of the training.
    loss : float or None
        The last objective, where the algorithm prints one.
    """
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.select(algorithm)
    trainer.set_params(parameters)
    for row, row_labels in zip(items, labels, strict=True):
        trainer.append(row, row_labels)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        with Clock() as clock:
            trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
    return tagger, clock.seconds, trainer.logparser.last_iteration.get("loss")
