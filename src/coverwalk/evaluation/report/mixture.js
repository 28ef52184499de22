"use strict";
// The forest's mixture, evaluated as the library's kernels do: walk down every tree, and mix the local models of the contexts.
// Components are those of the latent y; `density`, `mass` and `quantiles` are of y itself, see rounding.js.

const REGRESSION = 0, DENSITY_OF_Y = 2, GLOBAL_KERNEL = -2, CELLS_OF_Y = -3; // kinds of components
const STUDENT = 0, CELLS = 3; // kinds of shapes; the others here are sums of normal kernels
const BULK = 4; // deviations up to which inputs are scaled linearly

function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const kinds = { Int8Array, Int16Array, Int32Array, Uint8Array, Float64Array };
  const array = new kinds[packed.type](bytes.buffer);
  if (!packed.table) return array;
  const table = unpack(packed.table);
  return Float64Array.from(array, (place) => table[place]);
}

// Complementary error function, relative error below 1.2e-7 (Press et al., Numerical Recipes, 6.2).
function normalCdf(z) {
  const x = Math.abs(z) / Math.SQRT2, t = 1 / (1 + 0.5 * x);
  const terms = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277];
  const tail = 0.5 * t * Math.exp(terms.reduceRight((sum, term) => sum * t + term, 0) - x * x);
  return z < 0 ? tail : 1 - tail;
}

// The continued fraction of the incomplete beta function (ibid., 6.4).
function betaFraction(a, b, x) {
  let c = 1, d = 1 / (1 - ((a + b) * x) / (a + 1)), h = d;
  for (let m = 1; m < 500; m++) {
    for (const term of [(m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))]) {
      d = 1 / (1 + term * d);
      c = 1 + term / c;
      h *= d * c;
    }
    if (Math.abs(d * c - 1) < 1e-12) break;
  }
  return h;
}

// logNorm is the log density at 0.
function studentCdf(e, df, logNorm) {
  if (df > 1000) return normalCdf((e * (1 - 1 / (4 * df))) / Math.sqrt(1 + (e * e) / (2 * df)));
  const a = df / 2, x = df / (df + e * e), front = Math.exp(a * Math.log(x) + logNorm) * Math.abs(e) * Math.sqrt(x);
  const tail = x < (a + 1) / (a + 2.5) ? (0.5 * front * betaFraction(a, 0.5, x)) / a : 0.5 - front * betaFraction(0.5, a, 1 - x);
  return e < 0 ? tail : 1 - tail;
}

class Mixture {
  constructor(payload) {
    Object.assign(this, payload);
    for (const [name, packed] of Object.entries(payload.arrays)) this[name] = unpack(packed);
    this.rounding = new Rounding(payload.rounding);
    this.logHeight = this.atom_weight.map((w, a) => Math.log(w) - Math.log(this.atom_width[a]) - 0.5 * Math.log(2 * Math.PI));
  }

  scaled(x) {
    return x.map((value, a) => {
      const z = (0.5 * value - 0.5 * this.input_centre[a]) / (0.5 * this.input_scale[a]);
      return Math.abs(z) > BULK ? Math.sign(z) * (BULK + Math.log(Math.abs(z) - (BULK - 1))) : z;
    });
  }

  unscaled(z, a) {
    if (Number.isFinite(z) && Math.abs(z) > BULK) z = Math.sign(z) * (BULK - 1 + Math.exp(Math.abs(z) - BULK));
    const value = this.input_centre[a] + this.input_scale[a] * z;
    return Math.abs(value) < 1e-12 * this.input_scale[a] ? 0 : value; // what rounding left of a split at zero
  }

  // Every component at inputs x, in the units of the data: {weight, loc, scale, shape, kind, depth, nRows, degree, tree, box}.
  components(x) {
    const z = this.scaled(x);
    const trend = this.trend(z);
    const trees = [{ weight: this.outlier, loc: this.centre, scale: this.unit, shape: 0, kind: -1, depth: 0 }];
    this.roots.forEach((root, tree) => {
      const own = this.walk(z, root, tree, this.smooth[tree] ? trend : 0);
      const total = own.reduce((sum, component) => sum + component.weight, 0);
      const factor = ((1 - this.outlier) * (1 - this.kernel)) / (this.roots.length * total);
      for (const component of own) trees.push({ ...component, weight: component.weight * factor });
    });
    const all = this.kernel > 0 ? trees.concat(this.nodesAround(z)) : trees;
    return this.cell_weight > 0 ? this.withCells(all) : all;
  }

  // A histogram over cells common to all x: as much in each as the components have there, sharpened.
  withCells(components) {
    const below = (y) => components.reduce((sum, component) => sum + this.probabilityOf(component, y), 0);
    const masses = Array.from(this.cell_left, (left, c) => Math.max(below(this.cell_right[c]) - below(left), 0));
    const inside = masses.reduce((sum, mass) => sum + mass, 0), largest = Math.max(...masses, 1e-300);
    const sharp = masses.map((mass) => (mass / largest) ** this.cell_exponent), total = Math.max(sharp.reduce((sum, mass) => sum + mass, 0), 1e-300);
    const cells = sharp.map((mass, c) => ({
      weight: (this.cell_weight * inside * mass) / total, loc: this.cell_low[c], scale: this.cell_high[c] - this.cell_low[c],
      shape: this.cell_shape[0], kind: CELLS_OF_Y, depth: 0, nRows: this.n_rows_in_all,
    }));
    return components.map((component) => ({ ...component, weight: component.weight * (1 - this.cell_weight * inside) })).concat(cells);
  }

  // The kernel density over all rows: its nodes around x, linear between them.
  nodesAround(z) {
    let corners = [{ node: 0, weight: (1 - this.outlier) * this.kernel }];
    z.forEach((value, a) => {
      const last = this.node_size[a] - 1, t = Math.min(Math.max((value - this.node_low[a]) / this.node_step[a], 0), last);
      const g = Math.min(Math.floor(t), Math.max(last - 1, 0));
      const turn = (step, part) => corners.map((c) => ({ node: c.node * (last + 1) + Math.min(g + step, last), weight: c.weight * part }));
      corners = [...turn(0, 1 - (t - g)), ...turn(1, t - g)];
    });
    return corners.map(({ node, weight }) => ({
      weight, loc: this.centre, scale: this.unit, shape: this.node_first[0] + node, kind: GLOBAL_KERNEL, depth: 0, nRows: this.n_rows_in_all,
    }));
  }

  // The smooth function from which some trees start: a line, random Fourier features, and curves of single inputs.
  trend(z) {
    const n = this.trend_phase.length, p = z.length, c = this.trend_coefficients;
    if (c.length === 0) return 0;
    z = z.map((value, a) => Math.min(Math.max(value, this.trend_low[a]), this.trend_high[a]));
    let total = c[0];
    for (let a = 0; a < p; a++) total += c[1 + a] * z[a];
    for (let k = 0; k < n; k++) {
      let turns = this.trend_phase[k];
      for (let a = 0; a < p; a++) turns += this.trend_turns[a * n + k] * z[a];
      total += c[1 + p + k] * Math.cos(2 * Math.PI * turns);
    }
    const last = this.curve_knots.length / Math.max(this.curve_column.length, 1) - 1;
    this.curve_column.forEach((a, j) => {
      const begin = j * (last + 1), knot = (k) => this.curve_knots[begin + k], height = (k) => this.curve_heights[begin + k];
      let low = 0;
      while (low < last - 1 && knot(low + 1) <= z[a]) low++;
      const width = knot(low + 1) - knot(low);
      const share = width > 0 ? Math.min(Math.max((z[a] - knot(low)) / width, 0), 1) : 0;
      total += (1 - share) * height(low) + share * height(low + 1);
    });
    return total;
  }

  walk(z, root, tree, origin) {
    const own = [];
    let box = {};
    for (let k = root; ; ) {
      const slot = this.slot[k];
      let here = null;
      for (let q = this.first[k]; q < this.last[k]; q++) {
        here = here || this.clamp(z, slot);
        const loc = origin + (this.kind[q] >= DENSITY_OF_Y ? this.mean[slot] : this.value(here, slot));
        own.push({
          weight: this.weight[q], loc: this.centre + this.unit * loc, scale: this.unit * this.scale_factor * Math.sqrt(this.s2[q]), shape: this.shape[q],
          kind: this.kind[q], depth: this.depth[k], nRows: this.n_rows[slot], degree: this.slot_degree[slot], tree, box,
        });
      }
      if (this.left[k] < 0) return own;
      const a = this.feature[k], split = this.split[k], [low, high] = box[a] || [-Infinity, Infinity];
      const below = z[a] <= split;
      box = { ...box, [a]: below ? [low, Math.min(high, split)] : [Math.max(low, split), high] };
      k = this.left[k] + (below ? 0 : 1);
    }
  }

  clamp(z, slot) {
    const p = this.n_inputs;
    return z.map((value, a) => Math.min(Math.max(value, this.low[slot * p + a]), this.high[slot * p + a]));
  }

  value(x, slot) {
    const c = this.centres.subarray(slot * this.n_features, (slot + 1) * this.n_features), p = x.length;
    let total = c[0];
    if (this.degree >= 1) for (let a = 0; a < p; a++) total += c[1 + a] * x[a];
    if (this.degree >= 2) {
      for (let a = 0, at = 1 + p; a < p; at += a + 1, a++) {
        let inner = 0;
        for (let b = 0; b <= a; b++) inner += c[at + b] * x[b];
        total += inner * x[a];
      }
    }
    return total;
  }

  // Weighted density of one component at y.
  densityOf(component, y) {
    const s = component.shape, e = (y - component.loc) / component.scale, front = component.weight / component.scale;
    if (this.shape_kind[s] === STUDENT) {
      const df = this.shape_df[s];
      return front * Math.exp(this.shape_log_norm[s] - 0.5 * (df + 1) * Math.log1p((e * e) / df));
    }
    let total = 0;
    if (this.shape_kind[s] === CELLS) {
      for (let a = this.shape_start[s]; a < this.shape_start[s + 1]; a++) {
        if (this.atom_center[a] <= e && e < this.atom_center[a] + this.atom_width[a]) total = this.atom_weight[a] / this.atom_width[a];
      }
      return front * total;
    }
    for (let a = this.shape_start[s]; a < this.shape_start[s + 1]; a++) {
      const z = (e - this.atom_center[a]) / this.atom_width[a];
      if (z > -38 && z < 38) total += Math.exp(this.logHeight[a] - 0.5 * z * z);
    }
    return front * total;
  }

  // Weighted density of one component at a y of the data: on a grid the mass of y's cell over the step, at a single value its mass.
  densityIn(component, y) {
    const cell = this.rounding.cell(y);
    if (!cell) return 0;
    if (cell[0] === cell[1]) return this.densityOf(component, cell[0]) * this.rounding.slope(y);
    return (this.probabilityOf(component, cell[1]) - this.probabilityOf(component, cell[0])) / (this.rounding.step || 1);
  }

  density(components, y) {
    return components.reduce((sum, component) => sum + this.densityIn(component, y), 0);
  }

  // Weighted P(Y <= y) of one component.
  probabilityOf(component, y) {
    if (!Number.isFinite(y)) return y > 0 ? component.weight : 0;
    const s = component.shape, e = (y - component.loc) / component.scale;
    if (this.shape_kind[s] === STUDENT) return component.weight * studentCdf(e, this.shape_df[s], this.shape_log_norm[s]);
    let total = 0;
    for (let a = this.shape_start[s]; a < this.shape_start[s + 1]; a++) {
      const z = (e - this.atom_center[a]) / this.atom_width[a];
      total += this.atom_weight[a] * (this.shape_kind[s] === CELLS ? Math.min(Math.max(z, 0), 1) : normalCdf(z));
    }
    return component.weight * total;
  }

  quantiles(components, levels) {
    const lowest = Math.min(...components.map((v) => v.loc - 60 * v.scale)), highest = Math.max(...components.map((v) => v.loc + 60 * v.scale));
    return levels.map((level) => {
      let low = lowest, high = highest;
      for (let i = 0; i < 40; i++) {
        const middle = (low + high) / 2;
        if (components.reduce((sum, component) => sum + this.probabilityOf(component, middle), 0) < level) low = middle;
        else high = middle;
      }
      return this.rounding.value((low + high) / 2);
    });
  }
}
