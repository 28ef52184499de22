"use strict";
// The explorer: inputs on sliders, the predicted density as layers of contexts, coarse to fine, and a list of its components.

const LAYERS = [0, 3, 7, Infinity]; // the deepest context of each layer, as the legend has it
const POINTS = 240; // of the curve, evenly; more where voices are

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
    this.voices = this.mixture.voices(this.x);
    this.describe();
    this.repaint();
    this.list();
  }

  // Points at these numbers of scales about every voice that matters, so that no peak, however narrow, falls between two.
  about(steps) {
    const points = [];
    for (const voice of this.voices) {
      if (voice.weight < 0.005) continue;
      for (const step of steps) points.push(voice.loc + step * voice.scale);
    }
    return points;
  }

  // Points of the curve over [low, high]: one array of heights for each layer, summed up from below.
  curve(low, high) {
    const even = Array.from({ length: POINTS }, (_, i) => low + ((high - low) * i) / (POINTS - 1));
    const ys = Float64Array.from([...even, ...this.about([-1, 0, 1]).filter((y) => y > low && y < high)]).sort();
    const sums = LAYERS.map(() => new Float64Array(ys.length));
    for (const voice of this.voices) {
      const layer = sums[LAYERS.findIndex((deepest) => voice.depth <= deepest)];
      for (let i = 0; i < ys.length; i++) layer[i] += this.mixture.densityOf(voice, ys[i]);
    }
    for (let l = 1; l < sums.length; l++) for (let i = 0; i < ys.length; i++) sums[l][i] += sums[l - 1][i];
    return { ys: Array.from(ys), sums };
  }

  describe() {
    const [low, median, high, least, most] = this.mixture.quantiles(this.voices, [0.05, 0.5, 0.95, 0.005, 0.995]);
    this.reach = [least, most];
    const seen = this.row >= 0 ? ` It was <b class="seen">${short(this.facts.explore.y[this.row])}</b>.` : "";
    document.getElementById("says").innerHTML =
      `Median <b>${short(median)}</b>, nine times in ten between <b>${short(low)}</b> and <b>${short(high)}</b>.${seen}`;
    this.interval = [low, high];
  }

  span() {
    if (!this.zoom.checked) return this.facts.explore.range;
    const [low, high] = this.reach, margin = 0.15 * (high - low), y = this.row >= 0 ? [this.facts.explore.y[this.row]] : [];
    return [Math.min(low - margin, ...y), Math.max(high + margin, ...y)];
  }

  paint(svg, width, height) {
    if (!this.voices) return;
    const [low, high] = this.span(), bottom = height - 28, { ys, sums } = this.curve(low, high);
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
    axisBelow(svg, x, { low, high, at: ticks(low, high, Math.max(width / 90, 2)) }, bottom);
    if (this.row >= 0) {
      const at = x(this.facts.explore.y[this.row]);
      draw(svg, "line", { x1: at, x2: at, y1: 10, y2: bottom, class: "seen-line" });
      draw(svg, "circle", { cx: at, cy: bottom, r: 5.5, class: "seen-dot" });
    }
    this.axes = { svg, x, y, ys, peak };
  }

  // The prediction of one voice alone, drawn as high as the curve of all.
  highlight(voice) {
    const { svg, x, y, ys, peak } = this.axes;
    svg.querySelector("#own")?.remove();
    if (!voice) return;
    const raw = ys.map((v) => this.mixture.densityOf(voice, v)), own = Math.max(...raw);
    if (own === 0) return;
    const d = "M" + ys.map((v, i) => `${x(v).toFixed(1)},${y((raw[i] * peak) / own).toFixed(1)}`).join("L");
    draw(svg, "path", { d, class: "own", id: "own" });
  }

  list() {
    const home = document.getElementById("contexts"), top = [...this.voices].sort((a, b) => b.weight - a.weight).slice(0, 8);
    home.replaceChildren();
    for (const voice of top) {
      const line = document.createElement("li");
      line.tabIndex = 0;
      const bar = document.createElement("span");
      bar.className = "weight";
      bar.style.setProperty("--share", voice.weight / top[0].weight);
      const number = document.createElement("b");
      number.textContent = `${(100 * voice.weight).toFixed(1)} %`;
      const what = document.createElement("span");
      what.className = "what";
      what.textContent = this.nameOf(voice);
      const where = document.createElement("span");
      where.className = "where";
      where.textContent = this.boxOf(voice);
      line.append(bar, number, what, where);
      for (const event of ["pointerenter", "focus"]) line.addEventListener(event, () => this.highlight(voice));
      for (const event of ["pointerleave", "blur"]) line.addEventListener(event, () => this.highlight(null));
      home.appendChild(line);
    }
    const rest = this.voices.length - top.length;
    document.getElementById("rest").textContent = rest > 0 ? `and ${rest} more components, each with less weight` : "";
  }

  nameOf(voice) {
    if (voice.kind === WHOLE) return `a kernel density of y given x, over all ${voice.nRows} rows`;
    if (voice.kind === STEPS) return "a cell of y, common to all x";
    if (voice.kind < 0) return "outliers: a heavy-tailed distribution over everything";
    const root = ["a constant", "a plane", "a curved surface"][voice.degree], rows = `${voice.nRows} ${voice.nRows === 1 ? "row" : "rows"}`;
    const surface = voice.depth === 0 ? root : `its parent's surface, ${["shifted", "tilted", "bent"][voice.degree]}`;
    const what = voice.kind === REGRESSION ? surface : voice.kind === DENSITY_OF_Y ? "a kernel density of y" : voice.kind === TREE_OF_Y ? "a tree density of y" : `a kernel density around ${surface}`;
    return `${what}; ${rows}, depth ${voice.depth} of tree ${voice.tree + 1}`;
  }

  boxOf(voice) {
    if (voice.kind < 0) return "";
    const sides = Object.entries(voice.box).map(([a, [low, high]]) => {
      const name = this.facts.inputs[a], from = short(this.mixture.unscaled(low, a)), to = short(this.mixture.unscaled(high, a));
      return low === -Infinity ? `${name} ≤ ${to}` : high === Infinity ? `${name} > ${from}` : `${from} < ${name} ≤ ${to}`;
    });
    return sides.length ? sides.join(", ") : "all x";
  }
}
