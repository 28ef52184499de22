"""
A stream, and an alarm
======================

A sensor is read once a minute; its level depends on the hour. Each row is scored before it is learned, and the alarm
goes off when its log density is low.
"""

import matplotlib.pyplot as plt
import numpy as np

from coverwalk import ConditionalDensity

rng = np.random.default_rng(0)
hour = np.arange(6000) / 60 % 24
level = 20 + 5 * np.sin(hour / 24 * 2 * np.pi) + 0.3 * rng.standard_normal(6000)
level[4200:4206] += 4.0  # a fault: within the range of the day, but not at this hour

stream = ConditionalDensity()
log_p = stream.prequential(hour[:, None], level)
alarms = np.flatnonzero((log_p < -5) & (np.arange(6000) > 1440))  # after the first day
print("alarms at minutes", alarms)

figure, (above, below) = plt.subplots(2, 1, figsize=(9, 4.6), sharex=True, layout="constrained")
above.plot(level, ".", markersize=1, color="0.4")
above.plot(alarms, level[alarms], "o", color="tab:red", markersize=4, label="alarm")
above.set(ylabel="level", title="Sensor")
above.legend()
below.plot(log_p, linewidth=0.5)
below.axhline(-5, color="tab:red", linewidth=0.8, label="alarm below")
below.set(xlabel="minute", ylabel="log density", ylim=(-15, 2), title="Log density of each row before it was learned")
below.legend()
