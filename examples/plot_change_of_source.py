"""
A source that changes
=====================

A model that learns as it reads is surprised when its source changes, and then gets used to it: bits per byte over time.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import SequenceModel

rng = np.random.default_rng(0)
words = b"it was the best of times the worst age wisdom foolishness epoch belief season light darkness".split()
text = b" ".join(words[i] for i in rng.integers(0, len(words), 2500))
numbers = np.cumsum(rng.integers(-4, 5, (3000, 4)), axis=0).astype(">i2").tobytes()
source = text[:12_000] + numbers[:12_000] + text[12_000:]

bits = SequenceModel().prequential(source, unit="bits")
smooth = np.convolve(bits, np.full(200, 1 / 200), mode="valid")

figure, ax = plt.subplots(figsize=(10, 3.2), layout="constrained")
ax.plot(np.arange(len(smooth)) + 100, smooth)
for place in (12_000, 24_000):
    ax.axvline(place, color="tab:red", linestyle=":")
ax.set(xlabel="bytes read", ylabel="bits per byte")

# %%
# Which covers the predictions came from: words for the text, records for the table of numbers between.

SequenceModel().fit(text).contributions(), SequenceModel().fit(numbers).contributions()
