"""Micro F1 of sets of labels, at thresholds that are chosen for it."""

import matplotlib.pyplot as plt
import numpy as np
from _tables import OWN, PEERS, file_rows

methods = {
    "LinearSVC": (PEERS["scikit-learn"], "s"),
    "LogisticRegression": (PEERS["scikit-learn"], "o"),
    "10 chains": (PEERS["scikit-learn"], "^"),
    "ours": (OWN, "o"),
}
table = file_rows("label_sets")
names = list(dict.fromkeys(row["data"] for row in table))

figure, ax = plt.subplots(figsize=(6, 4.6))
for k, (name, (color, marker)) in enumerate(methods.items()):
    chosen = [row for row in table if row["method"] == name]
    places = np.array([names.index(row["data"]) for row in chosen])
    cells = [row["micro-F1"].strip(")").split(" (") for row in chosen]
    scores, errors = np.array(cells, float).T
    ax.errorbar(
        scores, places + 0.18 * (k - 1.5), xerr=errors, fmt=marker, color=color,
        label="MultilabelPairwise" if name == "ours" else name,
    )  # fmt: skip
ax.set_yticks(range(len(names)), names)
ax.invert_yaxis()
ax.set(title="Thresholds for micro F1", xlabel="micro F1, with standard errors")
ax.grid(axis="y", visible=False)
figure.legend(loc="outside lower center", ncols=2)
