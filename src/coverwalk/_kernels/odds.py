"""Two rivals and the odds between them: the one step of which the whole double pseudo-tree is made.

A weight w = g / (1 + g) is kept as its odds g. With the densities of the two rivals for a new observation,

    mixture = (base + g rival) / (1 + g),          g' = g rival / base.

The stop weight of a context (phi against the walk's next context), the choice between its two local models and the
halving of a cell of y are all this step, without a logarithm. Where g outgrows a double, whole powers of 2^332 are
set aside as `steps` and brought back when the data turn: neither w nor 1 - w is ever lost.

The steps are exact to a rounding while rival / base stays within 10^-80 .. 10^80 (`FAIR`); callers with more extreme
densities use the logarithmic forms.
"""

from math import exp, floor, log, log1p

from coverwalk._kernels._compile import kernel

__all__ = ["FAIR", "log_mixture", "log_odds", "mixture", "odds_from_log", "updated"]

FAIR = 1e80
_STEP = 2.0**332
_FAR = 2.0**664
_LOG_STEP = 332 * log(2.0)


@kernel
def mixture(g: float, steps: int, base: float, rival: float) -> float:
    """(base + g rival) / (1 + g) for the odds g 2^(332 steps)."""
    if steps == 0:
        share = 1.0 / (1.0 + g)
        return share * base + (g * share) * rival
    return rival if steps > 0 else base


@kernel
def updated(g: float, steps: int, ratio: float) -> tuple[float, int]:
    """(g', steps') of the odds times ratio = rival / base. Away from steps = 0 the odds stay beyond 2^332 or 2^-332."""
    g *= ratio
    if 1.0 / _FAR <= g <= _FAR and steps == 0:
        return g, steps
    if (g > _FAR and steps >= 0) or (g > 1.0 and steps < 0):
        return g / _STEP, steps + 1
    if (g < 1.0 / _FAR and steps <= 0) or (g < 1.0 and steps > 0):
        return g * _STEP, steps - 1
    return g, steps


@kernel
def log_odds(g: float, steps: int) -> float:
    """log g of odds with steps."""
    return log(g) + steps * _LOG_STEP


@kernel
def odds_from_log(log_g: float) -> tuple[float, int]:
    """(g, steps) with the given logarithm; steps = 0 wherever a double can hold the odds."""
    if abs(log_g) <= 2.0 * _LOG_STEP:
        return exp(log_g), 0
    if log_g > 0.0:
        steps = floor(log_g / _LOG_STEP) - 1
    else:
        steps = -floor(-log_g / _LOG_STEP) + 1
    return exp(log_g - steps * _LOG_STEP), steps


@kernel
def _softplus(t: float) -> float:
    return t + log1p(exp(-t)) if t > 0.0 else log1p(exp(t))


@kernel
def log_mixture(log_g: float, log_base: float, log_rival: float) -> float:
    """log of the mixture, from logarithms alone."""
    return log_base + _softplus(log_g + log_rival - log_base) - _softplus(log_g)
