"use strict";
// Small charts in SVG. Each is drawn at the width it has on the screen, and again when that changes, so that letters keep their size.

const NS = "http://www.w3.org/2000/svg";

function draw(parent, tag, attributes = {}, text = null) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// Call paint(svg, width) whenever the element's width changes; returns a function that paints again.
function chart(element, height, paint) {
  let width = 0;
  const again = () => {
    if (width <= 0) return;
    element.replaceChildren();
    const svg = draw(element, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": element.dataset.label || "" });
    paint(svg, width, height);
  };
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now !== width) {
      width = now;
      again();
    }
  }).observe(element);
  width = Math.floor(element.clientWidth);
  again();
  return again;
}

function short(value, digits = 4) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "–";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) return value.toExponential(2).replace("-", "−");
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

// About n round numbers between low and high.
function ticks(low, high, n) {
  const rough = (high - low) / Math.max(n, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || rough;
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12) + 1e-300 && out.length < 50; i++) out.push(i * step);
  return out;
}

function axisBelow(svg, scale, values, y, format = short) {
  draw(svg, "line", { x1: scale(values.low), x2: scale(values.high), y1: y, y2: y, class: "axis" });
  for (const value of values.at) {
    draw(svg, "line", { x1: scale(value), x2: scale(value), y1: y, y2: y + 4, class: "axis" });
    draw(svg, "text", { x: scale(value), y: y + 17, "text-anchor": "middle", class: "tick" }, format(value));
  }
}

const linear = (low, high, from, to) => (value) => from + ((value - low) / (high - low || 1)) * (to - from);

function pitChart(element, calibration) {
  chart(element, 220, (svg, width, height) => {
    const { heights, band } = calibration, bottom = height - 26;
    const x = linear(0, 1, 6, width - 6), y = linear(0, Math.max(...heights, band[1], 1.5) * 1.05, bottom, 8);
    draw(svg, "rect", { x: x(0), width: x(1) - x(0), y: y(band[1]), height: y(band[0]) - y(band[1]), class: "band" });
    heights.forEach((h, i) => {
      const left = x(i / heights.length), right = x((i + 1) / heights.length);
      const bar = draw(svg, "rect", { x: left + 1, width: Math.max(right - left - 2, 1), y: y(h), height: bottom - y(h), rx: 1.5, class: "bar" });
      draw(bar, "title", {}, `${short(i / heights.length)} to ${short((i + 1) / heights.length)}: ${short(h, 3)} of the expected number`);
    });
    draw(svg, "line", { x1: x(0), x2: x(1), y1: y(1), y2: y(1), class: "target" });
    axisBelow(svg, x, { low: 0, high: 1, at: [0, 0.25, 0.5, 0.75, 1] }, bottom);
  });
}

function coverageChart(element, calibration) {
  chart(element, 34 * calibration.levels.length + 30, (svg, width) => {
    const { levels, covered, noise } = calibration, left = 44, right = width - 56, low = Math.min(0.4, ...covered), x = linear(low, 1, left, right);
    levels.forEach((level, i) => {
      const y = 18 + 34 * i;
      draw(svg, "text", { x: 0, y: y + 4, class: "label" }, `${short(100 * level)} %`);
      draw(svg, "line", { x1: left, x2: right, y1: y, y2: y, class: "rail" });
      draw(svg, "line", { x1: x(level - noise[i]), x2: x(Math.min(level + noise[i], 1)), y1: y, y2: y, class: "range" });
      draw(svg, "line", { x1: x(level), x2: x(level), y1: y - 8, y2: y + 8, class: "target" });
      draw(svg, "circle", { cx: x(covered[i]), cy: y, r: 6, class: "dot" });
      draw(svg, "text", { x: width, y: y + 4, "text-anchor": "end", class: "value" }, `${(100 * covered[i]).toFixed(1)} %`);
    });
  });
}

// Horizontal bars: items of {name, value, text, strong}.
function barChart(element, items, low) {
  const high = Math.max(...items.map((item) => item.value));
  chart(element, 46 * items.length, (svg, width) => {
    const x = linear(low, high, 0, width - 4);
    items.forEach((item, i) => {
      const y = 46 * i;
      draw(svg, "text", { x: 0, y: y + 14, class: item.strong ? "label strong" : "label" }, item.name);
      draw(svg, "text", { x: width, y: y + 14, "text-anchor": "end", class: item.strong ? "value strong" : "value" }, item.text);
      draw(svg, "rect", { x: 0, y: y + 21, width, height: 9, rx: 4.5, class: "rail-fill" });
      draw(svg, "rect", { x: 0, y: y + 21, width: Math.max(x(item.value), 3), height: 9, rx: 4.5, class: item.strong ? "bar" : "bar quiet" });
    });
  });
}
