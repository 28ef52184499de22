"""Student's t with any real number of degrees of freedom: the tail mass, from the incomplete beta function."""

# A compiled function is Any to its caller.
# mypy: disable-error-code="no-any-return"

import math

import numpy as np
from scipy.special import gammaln

from coverwalk._arrays import Floats
from coverwalk._kernels._compile import kernel

_MANY = 3000.0  # degrees of freedom from which the normal expansion is exact to rounding


def student_log_norm(df: Floats) -> Floats:
    """Log density at 0: Γ((df+1)/2) / (Γ(df/2) sqrt(pi df)), to rounding for every df up to infinity.

    The difference of two large lgammas loses digits, so from df = 40 on it is its own series in 1/a, a = df/2.

    >>> student_log_norm(np.array([1.0, np.inf])).round(6)
    array([-1.14473 , -0.918939])
    """
    a = df / 2
    many = a > 20
    few = np.where(many, 1.0, a)
    b = 1 / np.where(many, a, np.inf) if df.size else a
    c = b * b
    series = -b * (1 / 8 - c * (1 / 192 - c * (1 / 640 - c * (17 / 14336 - c * 31 / 18432))))
    exact = gammaln(few + 0.5) - gammaln(few) - 0.5 * np.log(few)
    return np.where(many, series, exact) - 0.5 * math.log(2 * math.pi)


@kernel
def log1p(z: float) -> float:
    """As `math.log1p`, for z >= 0, in half the time: log(1 + z) corrected for what 1 + z rounded off."""
    u = 1.0 + z
    return math.log(u) + (z - (u - 1.0)) / u


@kernel
def beta_fraction(a: float, b: float, x: float, y: float) -> float:
    """I_x(a, b) B(a, b) / (x^a y^b), y = 1 - x, by a continued fraction that converges fast for x < (a+1)/(a+b+2).

    The even part of the classical fraction (DLMF 8.17.22), so half as many terms, by its forward recurrence: one
    division a term, where Lentz's method takes three.
    """
    rest = a * y - b * x + 1.0
    inverse = 1.0 / (a + 1.0)
    above, above_before = a * rest * inverse, 1.0
    below, below_before = 1.0, 0.0
    for m in range(1, 1000):
        ratio = x * inverse
        inverse = 1.0 / (a + 2.0 * m + 1.0)
        numerator = (a + m - 1.0) * (a + b + m - 1.0) * m * (b - m) * ratio * ratio
        partial = m + m * (b - m) * ratio + (a + m) * (rest + m * (2.0 - x)) * inverse
        above, above_before = partial * above + numerator * above_before, above
        below, below_before = partial * below + numerator * below_before, below
        if abs(above * below_before - above_before * below) <= 4e-16 * abs(above * below_before):
            break
        if abs(above) > 1e100:
            above *= 1e-100
            above_before *= 1e-100
            below *= 1e-100
            below_before *= 1e-100
    return below / above


@kernel
def student_density(e: float, df: float, log_norm: float) -> float:
    """Density of a Student t; 0 where it underflows."""
    if df == math.inf:
        return math.exp(log_norm - 0.5 * e * e)
    return math.exp(log_norm - 0.5 * (df + 1.0) * log1p(e * e / df))


@kernel
def student_tail(e: float, df: float, log_norm: float) -> float:
    """P(T > abs(e)), ``log_norm`` being the log density at 0.

    Relative error below 1e-13; just above _MANY degrees it grows to 4e-11 at thirty deviations, a tail of 2e-173.
    """
    e = abs(e)
    if df == math.inf:
        return 0.5 * math.erfc(e * math.sqrt(0.5))
    if e > 1e150:  # e^2 may overflow; there the tail is its own leading term
        if e == math.inf:
            return 0.0
        return math.exp(log_norm + 0.5 * (df + 1.0) * math.log(df) - df * math.log(e)) / df
    z = e * e / df
    log_x = -log1p(z)
    if df > _MANY:  # Hill (1970), CACM algorithm 395: the normal deviate of the same tail
        y = -(df - 0.5) * log_x
        b = 48.0 * (df - 0.5) ** 2
        correction = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b)
        return 0.5 * math.erfc(((correction + y + 3.0) / b + 1.0) * math.sqrt(0.5 * y))
    a = 0.5 * df
    x = 1.0 / (1.0 + z)
    front = math.exp(a * log_x + log_norm) * e * math.sqrt(x)  # x^a (1-x)^(1/2) / B(a, 1/2)
    if x < (a + 1.0) / (a + 2.5):
        return 0.5 * front * beta_fraction(a, 0.5, x, z * x)
    return 0.5 - 0.5 * front * beta_fraction(0.5, a, z * x, x)
