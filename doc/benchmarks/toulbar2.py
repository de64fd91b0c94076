"""Seconds to a proof of optimality: `auto` and toulbar2 on the same instances."""

import matplotlib.pyplot as plt
from _tables import OWN, SECOND, number, rows

LIMIT = 20.0
both, only = [], []
for row in rows("map", "instance", "auto", "toulbar2"):
    own, other = number(row["auto"]), number(row["toulbar2"])
    if own is not None and other is not None:
        both.append((other, own))
    elif own is not None and "after" in row["toulbar2"]:
        only.append((LIMIT, own))
    # there is no instance that only toulbar2 proves
    assert own is not None or other is None, row

figure, ax = plt.subplots()
ax.plot(*zip(*both, strict=True), "o", color=OWN, label="proved by both")
label = "proved by auto alone in 20 s"
ax.plot(*zip(*only, strict=True), ">", color=SECOND, label=label)
ax.plot([0.01, LIMIT], [0.01, LIMIT], color="black", linewidth=0.8)
ax.text(0.012, 0.9, "toulbar2 is faster", fontsize="small")
ax.text(1.5, 0.02, "auto is faster", fontsize="small")
ax.set(
    title="Seconds until the labeling is proved to be the best",
    xlabel="toulbar2 1.4",
    ylabel="auto",
    xscale="log",
    yscale="log",
)
ax.legend(loc="upper left")
