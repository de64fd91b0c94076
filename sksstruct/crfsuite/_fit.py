"""Train on the sentences of a `Trainer`, and write the model file."""

import os
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sksstruct.estimators import ChainCRF, Tagger, crfsuite_parameters
from sksstruct.estimators._crfsuite_format import CRFsuiteModel, write_model
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import sequence_accuracy_score, token_accuracy_score


class FrequentCRF(ChainCRF):
    """A tagger whose weights have at least the frequency ``feature.minfreq``.

    The frequency of a weight is the sum of the values of its feature at the positions
    with its label, or the number of its pairs of labels.
    """

    minfreq = 0.0

    def _model(self):
        model = super()._model()
        existing = model._existing
        model._existing = lambda bound, data: self._frequent(existing, bound, data)
        return model

    def _frequent(self, existing, bound, data):
        """Return the existing weights whose frequency is at least `minfreq`."""
        frequency = np.zeros(bound.n_weights)
        rows, labels = sparse.coo_array(data.packed.values), data.labels.astype(int)
        of_states = rows.col.astype(int) * bound.ld + labels[rows.row]
        np.add.at(frequency, of_states, rows.data)
        inside = np.ones(len(labels) - 1, dtype=bool)
        inside[data.packed.offsets[1:-1] - 1] = False
        # the rows of weights are, in this order, those of features, bias, first labels,
        # last labels, and pairs of labels
        first = (data.packed.n_features + 3) * bound.ld
        pairs = labels[:-1][inside] * bound.ld + labels[1:][inside]
        np.add.at(frequency, first + pairs, 1.0)
        weights = existing(bound, data)
        kept = weights[frequency[weights] >= self.minfreq]
        if not len(kept):
            raise ValueError(
                f"feature.minfreq={self.minfreq} leaves no weight: it must be at most "
                f"the largest frequency, {frequency[weights].max(initial=0.0)}"
            )
        return kept


def train_model(trainer, data, held_out, path):
    """Train on sentences, report to the trainer, and write a model.

    Parameters
    ----------
    trainer : Trainer
        The trainer, whose parameters are used, and which gets the messages.
    data, held_out : list of tuple of (AttributeList, list of str, int)
        Sentences to train on, and to evaluate.
    path : path-like
        The file; "": none is written.
    """
    values, say = trainer.get_params(), trainer._report
    parameters = _parameters(values, len(data))
    say("Feature generation\n", "start")
    say("type: CRF1d\n", "start")
    for name, value in values.items():
        say(f"{name}: {value}\n", "start")
    order = list(dict.fromkeys(label for _, labels, _ in data for label in labels))
    if len(order) > 1:
        tagger = _fitted(parameters, values["feature.minfreq"], data)
        model = _in_order(tagger._crfsuite("__BOS__", "__EOS__").model(), order)
        n_features = model.states.nnz + model.transitions.nnz
        say(f"Number of active features: {n_features}\n", "featgen_end")
        scores = _evaluated(tagger, held_out)
        _report_passes(trainer, tagger[-1].history_, len(data), scores)
    else:
        # a single label has probability 1 without any weight
        states, pairs = (sparse.csr_array((k, len(order))) for k in (0, len(order)))
        model = CRFsuiteModel(order, [], states, pairs)
    say("Storing the model\n", "optimization_end")
    if os.fspath(path):
        write_model(path, model)
    say("\n", "end")


def _parameters(values, n_sequences):
    """Return the parameters of `ChainCRF` for the parameters of a trainer."""
    return crfsuite_parameters(
        max(n_sequences, 1),
        c1=values.get("c1", 0.0),
        c2=values["c2"],
        max_iterations=max(values["max_iterations"], 1),
        all_possible_states=values["feature.possible_states"],
        all_possible_transitions=values["feature.possible_transitions"],
    )


def _fitted(parameters, minfreq, data):
    """Return a tagger that is trained on sentences."""
    crf = FrequentCRF(**parameters, random_state=0)
    crf.minfreq = minfreq
    tagger = Tagger([("items", SequenceVectorizer(separator=":")), ("crf", crf)])
    with warnings.catch_warnings():
        # the user has limited the passes by max_iterations
        warnings.simplefilter("ignore", ConvergenceWarning)
        return tagger.fit(_items(data), [labels for _, labels, _ in data])


def _items(data):
    """Return each sentence as a list of dicts of attributes."""
    return [[_summed(pairs) for pairs in items._pairs()] for items, _, _ in data]


def _summed(pairs):
    """Return a dict of an item's attributes; values of a repeated one are summed."""
    item = dict(pairs)
    if len(item) < len(pairs):
        item = dict.fromkeys(item, 0.0)
        for name, value in pairs:
            item[name] += value
    return item


def _in_order(model, labels):
    """Return the model with its labels in the order of the list `labels`."""
    places = np.array([model.labels.index(label) for label in labels])
    return CRFsuiteModel(
        labels,
        model.attributes,
        sparse.csr_array(model.states[:, places]),
        sparse.csr_array(model.transitions[places][:, places]),
    )


def _evaluated(tagger, held_out):
    """Return the accuracies of items and of whole sentences on held-out sentences."""
    if not held_out:
        return {}
    predicted, labels = tagger.predict(_items(held_out)), [y for _, y, _ in held_out]
    return {
        "item_accuracy_float": token_accuracy_score(labels, predicted),
        "instance_accuracy_float": sequence_accuracy_score(labels, predicted),
    }


def _report_passes(trainer, history, n_sequences, scores):
    """Report the passes of the solver, the last one with the held-out accuracies."""
    log, seconds = trainer.logparser, history["seconds"]
    # the first row of the history describes the weights before training
    for k in range(1, len(seconds)):
        info = {
            "num": int(history["pass"][k]),
            "loss": n_sequences * float(history["primal"][k]),
            "time": float(seconds[k] - seconds[k - 1]),
        }
        if k == len(seconds) - 1:
            info |= scores
        log.iterations.append(info)
        text = "".join(f"  {name}: {value:.6g}\n" for name, value in info.items())
        trainer._report(f"Iteration\n{text}", "iteration", info)
