"""Time of training to CRFsuite's objective, in units of CRFsuite's time."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, SECOND, number, rows

RATIO = '"auto" / CRFsuite'
table = rows("taggers", "sentences", "c2")
figure, ax = plt.subplots(figsize=(6, 3.2))
for c2, style, color in (("1", "o-", OWN), ("0.03", "s-", SECOND)):
    chosen = [row for row in table if row["c2"] == c2]
    ax.plot(
        [number(row["sentences"]) for row in chosen],
        [number(row[RATIO]) for row in chosen],
        style,
        color=color,
        label=f"c2 = {c2}",
    )
ax.axhline(1, color=PEERS["CRFsuite"])
ax.text(10, 0.98, "CRFsuite", va="top", color=PEERS["CRFsuite"])
ax.set(
    title='ChainCRF(loss="log") beside CRFsuite, same objective',
    xlabel="sentences of CoNLL-2000",
    ylabel="seconds / CRFsuite's",
    xscale="log",
    ylim=(0, 1.1),
)
ax.legend()
