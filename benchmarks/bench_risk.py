"""Best labelings beside labels that are each most probable: `ChainCRF(risk=...)`.

Taggers are trained on the likelihood with their defaults. Where labels mark spans, both
risks are also predicted with the constraints of the scheme. `sequences` is the share of
sequences that have no error.
"""

import _common
import numpy as np
from bench_search import problems

from sksstruct import ChainCRF
from sksstruct.inference import scheme_transitions
from sksstruct.metrics import chunk_f1_score


def rows(data_home):
    """A row for each set, risk, and whether labelings are constrained."""
    for name, X, y, X_test, y_test, scoring in problems(data_home):
        model = ChainCRF(loss="log", random_state=0).fit(X, y)
        spans = scoring is not None
        pairs = {"": None}
        if spans:
            pairs["scheme"] = scheme_transitions(model.classes_.tolist(), "auto")
        for constraint, forbidden in pairs.items():
            for risk in ("sequence", "hamming"):
                model.set_params(risk=risk)
                with _common.Clock() as clock:
                    found = model.predict(X_test, forbidden_transitions=forbidden)
                right = [np.asarray(a) == b for a, b in zip(y_test, found, strict=True)]
                f1 = chunk_f1_score(y_test, found) if spans else np.nan
                yield {
                    "data": name,
                    "constraints": constraint,
                    "risk": risk,
                    "accuracy": f"{100 * np.concatenate(right).mean():.2f}",
                    "F1": f"{100 * f1:.2f}" if spans else "",
                    "sequences": f"{100 * np.mean([row.all() for row in right]):.2f}",
                    "tag s": f"{clock.seconds:.3f}",
                }


def main():
    args = _common.arguments(__doc__)
    _common.live_table("Risks of chains", rows(args.data_home))


if __name__ == "__main__":
    main()
