"""
A source that changes
=====================

A model that learns as it reads needs more bits when its source changes, until it has learned the new source. To find
the place of the change, `change_points` compares the evidence of one model for all symbols with that of two models, one
before the place and one after it.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import SequenceModel
from coverwalk.sequences.change_points import change_points

rng = np.random.default_rng(0)
english = b"it was the best of times the worst age wisdom foolishness epoch belief season light darkness".split()
german = b"es war die beste zeit der welt schlimmste alter weisheit torheit epoche glauben licht dunkel".split()


def text(words, n):
    """Words in any order."""
    return b" ".join(words[i] for i in rng.integers(0, len(words), n))


source = b" ".join([text(english, 500), text(german, 500), text(english, 500)])

bits = SequenceModel().prequential(source, unit="bits")
smooth = np.convolve(bits, np.full(100, 1 / 100), mode="valid")
places = change_points(source)

figure, ax = plt.subplots(figsize=(10, 3.2), layout="constrained")
ax.plot(np.arange(len(smooth)) + 50, smooth, label="loss, mean of 100 bytes")
for i, place in enumerate(places):
    ax.axvline(place, color="tab:red", linestyle=":", label=None if i else "change found by the evidence")
ax.set(xlabel="bytes read", ylabel="bits per byte", title="English, German, English")
ax.legend()

# %%
# Counts that decay (``forget``) follow a source whose rules change. Here they change every 5000 symbols.

pieces = []
for _ in range(8):
    table = rng.dirichlet(np.full(16, 0.2), 16).cumsum(1)
    piece = [0]
    for u in rng.random(5000):
        piece.append(min(int((u >= table[piece[-1]]).sum()), 15))
    pieces += piece
for forget in (0.0, 1e-4, 3e-4, 1e-3):
    changing = SequenceModel(256, forget=forget).prequential(pieces, unit="bits").mean()
    print(f"forget={forget:6g}: {changing:.3f} bits per symbol")
