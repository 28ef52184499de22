"""Student's t with any real number of degrees of freedom: the tail mass, from the incomplete beta function."""

# mypy: disable-error-code="no-any-return"  # a compiled function is Any to its caller

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ._compile import kernel

__all__ = ["student_log_norm", "student_tail"]

_MANY = 3000.0  # degrees of freedom from which the normal expansion is exact to rounding
_TINY = 1e-300


def student_log_norm(df: NDArray[np.float64]) -> NDArray[np.float64]:
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
def beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function, by Lentz's method; converges fast for x < (a+1)/(a+b+2)."""
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    if abs(d) < _TINY:
        d = _TINY
    d = 1.0 / d
    h = d
    for m in range(1, 1000):
        m2 = 2.0 * m
        for even in range(2):
            if even == 0:
                step = m * (b - m) * x / ((a + m2 - 1.0) * (a + m2))
            else:
                step = -(a + m) * (a + b + m) * x / ((a + m2) * (a + m2 + 1.0))
            d = 1.0 + step * d
            if abs(d) < _TINY:
                d = _TINY
            c = 1.0 + step / c
            if abs(c) < _TINY:
                c = _TINY
            d = 1.0 / d
            h *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return h


@kernel
def student_tail(e: float, df: float, log_norm: float) -> float:
    """P(T > abs(e)): relative error about 1e-13, into the far tail. ``log_norm`` is the log density at 0."""
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
        return front * beta_fraction(a, 0.5, x) / df
    return 0.5 - front * beta_fraction(0.5, a, z * x)
