"""
Typing errors in a text
=======================

A model that has learned a text says how improbable each letter of a new text is, in bits.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import SequenceModel

lines = "the rain in spain stays mainly in the plain. " * 40
model = SequenceModel().fit(lines)
text = "the rain in spian stays mainly in the plane. "
bits = model.losses(text, unit="bits")

figure, ax = plt.subplots(figsize=(10, 3.2), layout="constrained")
ax.bar(np.arange(len(text)), bits, color=np.where(bits > 4, "tab:red", "tab:blue"))
ax.set_xticks(np.arange(len(text)), list(text))
ax.set(ylabel="bits", title="Loss of each letter; red above 4 bits")

# %%
# Which contexts have weight after ``"the pla"``?

print(model.explain("the pla"))
