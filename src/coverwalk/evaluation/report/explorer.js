"use strict";
// The explorer: inputs on sliders, the predicted density as layers of contexts, coarse to fine, and a list of its components.

const LAYERS = [0, 3, 7, Infinity]; // the deepest context of each layer, as the legend has it
const POINTS = 240; // of the curve, evenly; more where components are
const MOST_STEPS = 300; // that are drawn as steps; more are drawn as a curve

class Explorer {
  constructor(facts, mixture) {
    this.facts = facts;
    this.mixture = mixture;
    this.x = [...facts.explore.X[0]];
    this.row = 0;
    this.zoom = document.getElementById("zoom");
    this.zoom.addEventListener("change", () => this.repaint());
    this.buildRows();
    this.buildSliders();
    this.repaint = chart(document.getElementById("density"), window.innerWidth < 820 ? 210 : 300, (svg, width, height) => this.paint(svg, width, height));
    this.update();
  }

  buildRows() {
    const select = document.getElementById("row");
    const own = document.createElement("option");
    own.value = -1;
    own.textContent = "your own values";
    select.appendChild(own);
    this.facts.explore.rows.forEach((row, i) => {
      const option = document.createElement("option");
      option.value = i;
      option.textContent = `row ${row}`;
      select.appendChild(option);
    });
    select.addEventListener("change", () => select.value >= 0 && this.choose(Number(select.value)));
    const step = (by) => () => {
      const n = this.facts.explore.rows.length;
      this.choose((Math.max(this.row, by < 0 ? 0 : -1) + by + n) % n);
    };
    document.getElementById("before").addEventListener("click", step(-1));
    document.getElementById("after").addEventListener("click", step(1));
    this.select = select;
  }

  buildSliders() {
    const { low, high, whole } = this.facts.explore;
    this.sliders = this.facts.inputs.map((name, a) => {
      const line = document.createElement("label");
      line.className = "slider";
      const title = document.createElement("span");
      title.className = "name";
      title.textContent = name;
      const output = document.createElement("output");
      const slider = document.createElement("input");
      slider.type = "range";
      slider.min = low[a];
      slider.max = high[a];
      slider.step = whole[a] ? 1 : "any";
      slider.disabled = low[a] === high[a];
      slider.setAttribute("aria-label", name);
      slider.addEventListener("input", () => {
        this.x[a] = Number(slider.value);
        this.row = -1;
        this.update();
      });
      line.append(title, output, slider);
      document.getElementById("sliders").appendChild(line);
      return { slider, output };
    });
  }

  choose(i) {
    this.row = i;
    this.x = [...this.facts.explore.X[i]];
    this.update();
  }

  update() {
    this.select.value = this.row;
    this.sliders.forEach(({ slider, output }, a) => {
      slider.value = this.x[a];
      output.textContent = short(this.x[a], 5);
    });
    this.components = this.mixture.components(this.x);
    this.describe();
    this.repaint();
    this.list();
  }

  // Points at these numbers of scales about every component that matters, so that no peak, however narrow, falls between two.
  about(steps) {
    const points = [];
    for (const component of this.components) {
      if (component.weight < 0.005) continue;
      for (const step of steps) points.push(this.mixture.rounding.value(component.loc + step * component.scale));
    }
    return points;
  }

  // Points of the curve over [low, high]: one array of heights for each layer, summed up from below. A grid of y makes steps.
  curve(low, high) {
    const rounding = this.mixture.rounding, values = rounding.between(low, high, MOST_STEPS), half = rounding.step / 2;
    const even = Array.from({ length: POINTS }, (_, i) => low + ((high - low) * i) / (POINTS - 1));
    const near = this.about([-1, 0, 1]).filter((y) => y > low && y < high);
    const at = values ?? [...even, ...near].filter((y) => !rounding.values.includes(y)).sort((a, b) => a - b);
    const sums = LAYERS.map(() => new Float64Array(at.length));
    for (const component of this.components) {
      const layer = sums[LAYERS.findIndex((deepest) => component.depth <= deepest)];
      for (let i = 0; i < at.length; i++) layer[i] += this.mixture.densityIn(component, at[i]);
    }
    for (let l = 1; l < sums.length; l++) for (let i = 0; i < at.length; i++) sums[l][i] += sums[l - 1][i];
    if (!values) return { ys: at, sums: sums.map((layer) => Array.from(layer)), at };
    return { ys: at.flatMap((y) => [y - half, y + half]), sums: sums.map((layer) => Array.from(layer).flatMap((h) => [h, h])), at };
  }

  // Single values that have a probability of their own.
  atoms() {
    const masses = this.mixture.rounding.values.map((value) => ({ value, mass: this.mixture.density(this.components, value) }));
    return masses.filter(({ mass }) => mass >= 0.005).sort((a, b) => b.mass - a.mass);
  }

  describe() {
    const [low, median, high, lowest, highest] = this.mixture.quantiles(this.components, [0.05, 0.5, 0.95, 0.005, 0.995]);
    this.reach = [lowest, highest];
    const seen = this.row >= 0 ? ` It was <b class="seen">${short(this.facts.explore.y[this.row])}</b>.` : "";
    const shown = this.atoms().slice(0, 3), percent = (mass) => `${(100 * mass).toFixed(1)} %`;
    const atoms = shown.map(({ value, mass }) => ` P(y = ${short(value)}) is <b>${percent(mass)}</b>.`).join("");
    document.getElementById("summary").innerHTML =
      `Median <b>${short(median)}</b>, 90 % interval from <b>${short(low)}</b> to <b>${short(high)}</b>.${atoms}${seen}`;
    this.interval = [low, high];
  }

  span() {
    if (!this.zoom.checked) return this.facts.explore.range;
    const [low, high] = this.reach, margin = 0.15 * (high - low), y = this.row >= 0 ? [this.facts.explore.y[this.row]] : [];
    return [Math.min(low - margin, ...y), Math.max(high + margin, ...y)];
  }

  paint(svg, width, height) {
    if (!this.components) return;
    const [low, high] = this.span(), bottom = height - 28, { ys, sums, at } = this.curve(low, high);
    const top = sums[sums.length - 1], peak = Math.max(...top);
    const x = linear(low, high, 4, width - 4), y = linear(0, peak * 1.08 || 1, bottom, 10);
    const [from, to] = this.interval.map((v) => Math.min(Math.max(x(v), 4), width - 4));
    draw(svg, "rect", { x: from, width: Math.max(to - from, 1), y: 10, height: bottom - 10, class: "interval" });
    let below = ys.map(() => 0);
    sums.forEach((layer, l) => {
      const up = ys.map((v, i) => `${x(v).toFixed(1)},${y(layer[i]).toFixed(1)}`);
      const down = ys.map((v, i) => `${x(v).toFixed(1)},${y(below[i]).toFixed(1)}`).reverse();
      draw(svg, "path", { d: `M${up.join("L")}L${down.join("L")}Z`, class: `layer layer-${l}` });
      below = layer;
    });
    draw(svg, "path", { d: "M" + ys.map((v, i) => `${x(v).toFixed(1)},${y(top[i]).toFixed(1)}`).join("L"), class: "curve", id: "curve" });
    for (const { value, mass } of this.atoms()) {
      if (value < low || value > high) continue;
      const tip = bottom - mass * (bottom - 24), right = x(value) > width - 60;
      draw(svg, "line", { x1: x(value), x2: x(value), y1: bottom, y2: tip, class: "atom" });
      draw(svg, "circle", { cx: x(value), cy: tip, r: 4, class: "atom" });
      draw(svg, "text", { x: x(value) + (right ? -7 : 7), y: tip + 4, "text-anchor": right ? "end" : "start", class: "tick" }, `${(100 * mass).toFixed(0)} %`);
    }
    axisBelow(svg, x, { low, high, at: ticks(low, high, Math.max(width / 90, 2)) }, bottom);
    if (this.row >= 0) {
      const seen = x(this.facts.explore.y[this.row]);
      draw(svg, "line", { x1: seen, x2: seen, y1: 10, y2: bottom, class: "seen-line" });
      draw(svg, "circle", { cx: seen, cy: bottom, r: 5.5, class: "seen-dot" });
    }
    this.axes = { svg, x, y, ys, at, peak };
  }

  // The prediction of one component alone, drawn as high as the curve of all.
  highlight(component) {
    const { svg, x, y, ys, at, peak } = this.axes;
    svg.querySelector("#own")?.remove();
    if (!component) return;
    const heights = at.map((v) => this.mixture.densityIn(component, v)), own = Math.max(...heights);
    if (own === 0) return;
    const raw = at.length < ys.length ? heights.flatMap((h) => [h, h]) : heights;
    const d = "M" + ys.map((v, i) => `${x(v).toFixed(1)},${y((raw[i] * peak) / own).toFixed(1)}`).join("L");
    draw(svg, "path", { d, class: "own", id: "own" });
  }

  list() {
    const home = document.getElementById("contexts"), top = [...this.components].sort((a, b) => b.weight - a.weight).slice(0, 8);
    home.replaceChildren();
    for (const component of top) {
      const line = document.createElement("li");
      line.tabIndex = 0;
      const bar = document.createElement("span");
      bar.className = "weight";
      bar.style.setProperty("--weight", component.weight / top[0].weight);
      const number = document.createElement("b");
      number.textContent = `${(100 * component.weight).toFixed(1)} %`;
      const what = document.createElement("span");
      what.className = "what";
      what.textContent = this.nameOf(component);
      const where = document.createElement("span");
      where.className = "where";
      where.textContent = this.boxOf(component);
      line.append(bar, number, what, where);
      for (const event of ["pointerenter", "focus"]) line.addEventListener(event, () => this.highlight(component));
      for (const event of ["pointerleave", "blur"]) line.addEventListener(event, () => this.highlight(null));
      home.appendChild(line);
    }
    const rest = this.components.length - top.length;
    document.getElementById("rest").textContent = rest > 0 ? `and ${rest} more components, each with less weight` : "";
  }

  nameOf(component) {
    if (component.kind === GLOBAL_KERNEL) return `a kernel density of y given x, over all ${component.nRows} rows`;
    if (component.kind === CELLS_OF_Y) return "a cell of y, common to all x";
    if (component.kind < 0) return "outliers: a heavy-tailed distribution over everything";
    const root = ["a constant", "a plane", "a curved surface"][component.degree], rows = `${component.nRows} ${component.nRows === 1 ? "row" : "rows"}`;
    const surface = component.depth === 0 ? root : `its parent's surface, ${["shifted", "tilted", "bent"][component.degree]}`;
    const what = component.kind === REGRESSION ? surface : component.kind === DENSITY_OF_Y ? "a kernel density of y" : `a kernel density around ${surface}`;
    return `${what}; ${rows}, depth ${component.depth} of tree ${component.tree + 1}`;
  }

  boxOf(component) {
    if (component.kind < 0) return "";
    const sides = Object.entries(component.box).map(([a, [low, high]]) => {
      const name = this.facts.inputs[a], from = short(this.mixture.unscaled(low, a)), to = short(this.mixture.unscaled(high, a));
      return low === -Infinity ? `${name} ≤ ${to}` : high === Infinity ? `${name} > ${from}` : `${from} < ${name} ≤ ${to}`;
    });
    return sides.length ? sides.join(", ") : "all x";
  }
}
