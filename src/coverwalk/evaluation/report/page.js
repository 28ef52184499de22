"use strict";
// Fill the page from the facts it carries.

function cell(row, text, tag = "td") {
  const node = document.createElement(tag);
  node.textContent = text;
  row.appendChild(node);
  return node;
}

function fillModel(facts) {
  const model = facts.model, home = document.getElementById("model");
  const entries = {
    rows: [model.n_rows.toLocaleString("en"), "rows learned"],
    inputs: [facts.inputs.length, facts.inputs.length === 1 ? "input" : "inputs"],
    trees: [model.n_trees, "trees"],
    contexts: [model.n_contexts?.toLocaleString("en"), "contexts"],
    depth: [model.mean_depth?.toFixed(1), "splits before the walk stops, on average"],
    calibrated: [model.calibration_rows?.toLocaleString("en"), "rows it was calibrated on"],
  };
  for (const [value, text] of Object.values(entries)) {
    if (value === undefined) continue;
    const item = document.createElement("div");
    const number = document.createElement("b");
    number.textContent = value;
    const label = document.createElement("span");
    label.textContent = text;
    item.append(number, label);
    home.appendChild(item);
  }
  const components = Object.entries(model.components ?? {}).filter(([, weight]) => weight > 0.0005).sort((a, b) => b[1] - a[1]);
  const shown = components.map(([kind, weight]) => `${kind} ${(100 * weight).toFixed(1)} %`).join(", ");
  document.getElementById("components").textContent = shown && `Components by weight: ${shown}.`;
}

function fillNotes(facts) {
  const notes = [...facts.notes];
  if (facts.seen > 0) {
    const part = facts.seen > 0.995 ? "all" : `${(100 * facts.seen).toFixed(0)} %`;
    notes.push(`The model learned from ${part} of these rows, so the scores below are too optimistic. Use held-out rows.`);
  }
  if (facts.explore && facts.n_trees_here < facts.model.n_trees) {
    notes.push(`To keep this page small, the explorer uses ${facts.n_trees_here} of the model's ${facts.model.n_trees} trees. All other numbers use all trees.`);
  }
  for (const text of notes) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = text;
    document.getElementById("notes").appendChild(note);
  }
}

function fillLosses(facts) {
  const best = Math.min(...facts.losses.map((l) => l.loss)), worst = Math.max(...facts.losses.map((l) => l.loss));
  const items = facts.losses.map((l) => ({ name: l.name, value: l.loss, text: `${l.loss.toFixed(3)} ± ${l.error.toFixed(3)}`, strong: l.name === "coverwalk" }));
  barChart(document.getElementById("losses"), items, best - 0.35 * (worst - best || 1));
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const columns = facts.kind === "classes"
    ? { "": (l) => l.name, "log loss": (l) => l.loss.toFixed(3), accuracy: (l) => percent(l.accuracy) }
    : { "": (l) => l.name, "log loss": (l) => l.loss.toFixed(3), CRPS: (l) => short(l.crps), RMSE: (l) => short(l.rmse), "90 % coverage": (l) => percent(l.covered) };
  fillTable("loss", columns, facts.losses, "loss-table");
}

// A table of items: columns by their heads, each with what it shows of an item; the first names the row.
function fillTable(name, columns, items, bodyName = name) {
  const head = document.getElementById(`${name}-head`), body = document.getElementById(bodyName);
  for (const title of Object.keys(columns)) cell(head, title, "th").scope = "col";
  for (const item of items) {
    const row = body.insertRow();
    Object.values(columns).forEach((show, k) => {
      const shown = show(item), node = cell(row, typeof shown === "object" ? "" : shown, k ? "td" : "th");
      if (typeof shown === "object") node.appendChild(shown);
      if (!k) node.scope = "row";
    });
  }
}

function fillConfusion(facts) {
  const columns = { [`observed \\ predicted`]: (item) => item.name };
  facts.classes.forEach((name, c) => { columns[name] = (item) => item.counts[c]; });
  fillTable("confusion", columns, facts.classes.map((name, c) => ({ name, counts: facts.confusion[c] })));
}

function fillReliability(facts) {
  const bins = facts.reliability, levels = bins.map((b) => b.claimed), covered = bins.map((b) => b.accuracy);
  const noise = bins.map((b) => 1.96 * Math.sqrt(b.claimed * (1 - b.claimed) / b.n));
  coverageChart(document.getElementById("reliability"), { levels, covered, noise });
}

function fillImportances(facts) {
  const top = facts.importances.slice(0, 15), home = document.getElementById("importances");
  barChart(home, top.map((i) => ({ name: i.name, value: Math.max(i.rise, 0), text: i.rise.toFixed(3), strong: true })), 0);
}

function fillSurprising(facts, explorer) {
  const which = (s) => {
    if (!explorer) return `row ${s.row}`;
    const button = document.createElement("button");
    button.textContent = `row ${s.row}`;
    button.addEventListener("click", () => {
      explorer.choose(facts.explore.rows.indexOf(s.row));
      document.getElementById("explore").scrollIntoView({ behavior: "smooth" });
    });
    return button;
  };
  const columns = facts.kind === "classes"
    ? { row: which, [facts.target]: (s) => s.y, predicted: (s) => s.predicted, "probability of the observed class": (s) => short(s.p, 3), loss: (s) => s.loss.toFixed(2) }
    : { row: which, [facts.target]: (s) => short(s.y), "90 % interval": (s) => `${short(s.low ?? -Infinity)} to ${short(s.high ?? Infinity)}`, loss: (s) => s.loss.toFixed(2) };
  fillTable("surprising", columns, facts.surprising);
}

function fillSplits(facts) {
  if (!facts.model.splits) {
    document.getElementById("splits-section").remove();
    return;
  }
  const splits = Object.entries(facts.model.splits).sort((a, b) => b[1] - a[1]).slice(0, 20);
  barChart(document.getElementById("splits"), splits.map(([name, fraction]) => ({ name, value: fraction, text: `${(100 * fraction).toFixed(1)} %`, strong: true })), 0);
}

function start() {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  for (const node of document.querySelectorAll("[data-fact]")) node.textContent = facts[node.dataset.fact].toLocaleString("en");
  fillModel(facts);
  fillNotes(facts);
  for (const section of document.querySelectorAll("[data-kind]")) if (section.dataset.kind !== facts.kind) section.remove();
  fillLosses(facts);
  fillImportances(facts);
  if (facts.kind === "classes") {
    fillReliability(facts);
    fillConfusion(facts);
  } else {
    pitChart(document.getElementById("pit"), facts.calibration);
    const { error, by_chance } = facts.calibration;
    document.getElementById("calibration-error").textContent = `Calibration error ${error.toFixed(3)}; a calibrated model has about ${by_chance.toFixed(3)} on as many rows.`;
    coverageChart(document.getElementById("coverage"), facts.calibration);
    fillSplits(facts);
  }
  if (!facts.explore) document.getElementById("explore").remove();
  const mixture = facts.explore && new Mixture(facts.forest), explorer = facts.explore && new Explorer(facts, mixture);
  fillSurprising(facts, explorer);
  window.coverwalk = { facts, mixture, explorer };
}

start();
