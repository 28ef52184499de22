"use strict";
// Rounded y, single values and bounds: the map between y and the latent y of the mixture, as preparation/rounding.py has it.

const SNAP = 1e-6; // of a step: y so near to a value of the grid is that value

class Rounding {
  constructor(facts) {
    Object.assign(this, { step: 0, origin: 0, decimals: -1, values: [], width: [], bounds: null }, facts);
    this.low = facts?.low ?? -Infinity;
    this.high = facts?.high ?? Infinity;
    if (this.bounds) this.bounds = { low: this.bounds.low ?? -Infinity, high: this.bounds.high ?? Infinity, c: this.bounds.c, b: this.bounds.b };
  }

  // Near a bound y is seen by its logarithm, and as it is beyond; nearer than b, where that is not 0, as it is again.
  ratio(a) {
    const turn = this.bounds.b / this.bounds.c;
    if (a < turn) return Math.log(turn) + a / turn - 1;
    return a <= 1 ? Math.log(Math.max(a, 0)) : a - 1;
  }

  distance(z) {
    const turn = this.bounds.b / this.bounds.c;
    if (turn > 0 && z < Math.log(turn)) return turn * (1 + z - Math.log(turn));
    return z < 0 ? Math.exp(z) : 1 + z;
  }

  forward(y) {
    if (!this.bounds) return y;
    const { low, high, c } = this.bounds;
    if (low === -Infinity) return -this.ratio((high - y) / c);
    return high - y <= c ? this.top() - this.ratio((high - y) / c) : this.ratio((y - low) / c);
  }

  backward(z) {
    if (!this.bounds) return z;
    const { low, high, c } = this.bounds;
    if (low === -Infinity) return high - c * this.distance(-z);
    return z > this.top() ? high - c * this.distance(this.top() - z) : low + c * this.distance(z);
  }

  top() {
    return this.bounds.low === -Infinity ? 0 : (this.bounds.high - this.bounds.low) / this.bounds.c - 2;
  }

  slope(y) {
    if (!this.bounds) return 1;
    const at = this.moved(y, true), { low, high, c, b } = this.bounds;
    return 1 / Math.max(Math.min(at - low, high - at, c), b);
  }

  // y with the widths of the cells that are opened below it.
  moved(y, included) {
    return y + this.width.reduce((sum, width, i) => sum + (this.values[i] < y || (included && this.values[i] === y) ? width : 0), 0);
  }

  // Ends of the latent cell of y: equal where y is continuous, null outside of the limits.
  cell(y) {
    if (y < this.low || y > this.high) return null;
    const z = (y - this.origin) / this.step, k = Math.ceil((Math.abs(z - Math.round(z)) <= SNAP ? Math.round(z) : z) - 0.5);
    const [left, right] = this.step
      ? [this.origin + (k - 0.5) * this.step, this.origin + (k + 0.5) * this.step]
      : [this.moved(y, false), this.moved(y, true)];
    const atom = left < right;
    return [atom && y === this.low ? -Infinity : this.forward(left), atom && y === this.high ? Infinity : this.forward(right)];
  }

  // The y of a latent y.
  value(latent) {
    const t = this.backward(latent);
    let y = t;
    if (this.step) {
      y = this.origin + Math.ceil((t - this.origin) / this.step - 0.5 - SNAP) * this.step;
      if (this.decimals >= 0) y = Number(y.toFixed(this.decimals));
    } else {
      let opened = 0;
      for (let i = 0; i < this.values.length; i++) {
        const start = this.values[i] + opened, end = start + this.width[i];
        if (t < start) break;
        opened += this.width[i];
        y = t <= end + SNAP * this.width[i] ? this.values[i] : t - opened;
      }
    }
    return Math.min(Math.max(y, this.low), this.high);
  }

  // Values of the grid between two y, or null where there are too many to be drawn apart.
  between(low, high, max) {
    if (!this.step || (high - low) / this.step > max) return null;
    const first = Math.ceil((Math.max(low, this.low) - this.origin) / this.step - SNAP), last = Math.floor((Math.min(high, this.high) - this.origin) / this.step + SNAP);
    return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => this.origin + (first + i) * this.step);
  }
}
