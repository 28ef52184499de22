"""
A loop that reads, scores, learns and alerts
============================================

The power draw of a simulated machine depends on its load and temperature. At row 4000 a sensor is stuck for a while.
From row 6000 on, the machine draws more power than before. The model reports both, and then learns the second.
"""

from collections.abc import Iterator

import numpy as np

from coverwalk import ConditionalDensity


def machine(n: int) -> Iterator[tuple[list[float], float]]:
    """Rows of load, temperature and power draw, one by one."""
    rng = np.random.default_rng(0)
    for t in range(n):
        load, temperature = rng.uniform(0, 1), 20 + 5 * np.sin(t / 500) + rng.normal()
        power = 50 + 40 * load**2 + 0.5 * (temperature - 20) * load + rng.normal(scale=1 + load)
        if 4000 <= t < 4010:
            power = 0.0
        if t >= 6000:
            power += 15 * load
        yield [load, temperature], power


def main() -> None:
    """Read, score, learn, alert."""
    model = ConditionalDensity(n_estimators=8, forget=0.001)
    alarms = []
    for t, (x, power) in enumerate(machine(9000)):
        if t == 8999:
            low, high = model.predict_dist(np.array([x])).interval(0.9)
            print(f"row {t}: power {power:.1f}, expected between {low[0]:.1f} and {high[0]:.1f}")
        log_p = model.learn_one(x, power)
        if t > 500 and log_p < -9:
            alarms.append(t)
    print(
        f"{len(alarms)} alarms: {sum(4000 <= t < 4010 for t in alarms)} while the sensor stuck, "
        f"{sum(6000 <= t < 7000 for t in alarms)} in the thousand rows after the change, "
        f"{sum(t >= 7000 for t in alarms)} later, {sum(t < 4000 for t in alarms)} before"
    )


if __name__ == "__main__":
    main()
