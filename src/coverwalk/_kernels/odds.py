"""Two rivals and the odds between them: eq. 2 of docs/math.md, the one step of which every walk row by row is made.

A weight w = g / (1 + g) is kept as its odds g. With the densities of the two rivals for a new observation,

    mixture = (base + g rival) / (1 + g),          g' = g rival / base.

The stop weight of a context (phi against the walk's next context) is this step in all engines; in the double tree so
are the choice between its two local models and the halving of a cell of y, without a logarithm. Where g outgrows a
double, whole powers of 2^332 are set aside as an `exponent` and brought back when the data turn: neither w nor 1 - w is
ever lost.

A step is exact to a rounding while rival / base stays within 10^-80 .. 10^80 (`FAIR`); callers with more extreme
densities use the logarithmic forms.
"""

from math import exp, floor, inf, log, log1p

from coverwalk._kernels._compile import kernel

FAIR = 1e80
_STEP = 2.0**332
FAR = 2.0**664
_LOG_STEP = 332 * log(2.0)


@kernel
def mixture(g: float, exponent: int, base: float, rival: float) -> float:
    """(base + g rival) / (1 + g) for the odds g 2^(332 exponent)."""
    if exponent == 0:
        stay = 1.0 / (1.0 + g)
        return stay * base + (g * stay) * rival
    return rival if exponent > 0 else base


@kernel
def updated(g: float, exponent: int, ratio: float) -> tuple[float, int]:
    """(g', exponent') of the odds times ratio = rival / base. Where exponent != 0, odds are beyond 2^332 or 2^-332."""
    g *= ratio
    if 1.0 / FAR <= g <= FAR and exponent == 0:
        return g, exponent
    if (g > FAR and exponent >= 0) or (g > 1.0 and exponent < 0):
        return g / _STEP, exponent + 1
    if (g < 1.0 / FAR and exponent <= 0) or (g < 1.0 and exponent > 0):
        return g * _STEP, exponent - 1
    return g, exponent


@kernel
def log_odds(g: float, exponent: int) -> float:
    """log g of odds with an exponent."""
    return log(g) + exponent * _LOG_STEP


@kernel
def odds_from_log(log_g: float) -> tuple[float, int]:
    """(g, exponent) with the given logarithm; exponent = 0 wherever a double can hold the odds."""
    if abs(log_g) <= 2.0 * _LOG_STEP:
        return exp(log_g), 0
    if log_g > 0.0:
        exponent = floor(log_g / _LOG_STEP) - 1
    else:
        exponent = -floor(-log_g / _LOG_STEP) + 1
    return exp(log_g - exponent * _LOG_STEP), exponent


@kernel
def _softplus(t: float) -> float:
    return t + log1p(exp(-t)) if t > 0.0 else log1p(exp(t))


@kernel
def log_mixture(log_g: float, log_base: float, log_rival: float) -> float:
    """log of the mixture, from logarithms alone."""
    if log_base == -inf:
        return log_rival + log_g - _softplus(log_g)
    return log_base + _softplus(log_g + log_rival - log_base) - _softplus(log_g)


@kernel
def log_add(a: float, b: float) -> float:
    """log(e^a + e^b): the evidence Z = w phi + (1 - w) Z_next of a context, from the logarithms of both terms."""
    high, low = max(a, b), min(a, b)
    return high if low == -inf else high + log1p(exp(low - high))


@kernel
def log_step(log_base: float, log_rival: float) -> float:
    """What an observation adds to the log odds of the rival; bounded, so that no single row decides for ever.

    Nothing where both have no density, at a y beyond all that they have seen.
    """
    if log_rival == log_base:
        return 0.0
    return min(max(log_rival - log_base, -700.0), 700.0)
