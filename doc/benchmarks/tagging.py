"""Tokens that are tagged in a second, beside python-crfsuite."""

import matplotlib.pyplot as plt
from _tables import OWN, PEERS, between, rows

MILLIONS = {"million": 1, "thousand": 1e-3}
table = rows("taggers", "who", "tokens a second")
table = [row for row in table if "cast" not in row["who"]]
names = [
    row["who"]
    .replace("`", "")
    .replace("SequenceVectorizer and ", "")
    .replace("predict, ", "ChainCRF: ")
    .replace("python-crfsuite,", "crfsuite:")
    for row in table
]
ranges = []
for row in table:
    numbers, unit = row["tokens a second"].split()
    ranges.append([end * MILLIONS[unit] for end in between(numbers)])
middle = [(low + high) / 2 for low, high in ranges]
error = [(high - low) / 2 for low, high in ranges]
colors = [PEERS["CRFsuite"] if "crfsuite" in name else OWN for name in names]

figure, ax = plt.subplots(figsize=(6, 3.2))
bars = ax.barh(names, middle, xerr=error, color=colors)
ax.bar_label(bars, padding=3, fontsize="small", fmt="%.2f")
ax.invert_yaxis()
ax.set_title("Tagging CoNLL-2000, one thread", loc="right")
ax.set(xlabel="million tokens a second", xlim=(0, 6.5))
ax.grid(axis="y", visible=False)
