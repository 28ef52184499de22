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
    rows: [model.n_rows.toLocaleString("en"), "learned from"],
    inputs: [facts.inputs.length, facts.inputs.length === 1 ? "input" : "inputs"],
    trees: [model.n_trees, "trees of covers"],
    contexts: [model.n_contexts.toLocaleString("en"), "contexts"],
    depth: [model.mean_depth.toFixed(1), "cuts before the walk stops, on average"],
  };
  for (const [value, text] of Object.values(entries)) {
    const item = document.createElement("div");
    const number = document.createElement("b");
    number.textContent = value;
    const label = document.createElement("span");
    label.textContent = text;
    item.append(number, label);
    home.appendChild(item);
  }
  const voices = Object.entries(model.voices).filter(([, share]) => share > 0.0005).sort((a, b) => b[1] - a[1]);
  document.getElementById("voices").textContent =
    "Who speaks, by weight: " + voices.map(([kind, share]) => `${kind} ${(100 * share).toFixed(1)} %`).join(", ") + ".";
}

function fillNotes(facts) {
  const notes = [...facts.notes];
  if (facts.seen > 0) {
    const share = facts.seen > 0.995 ? "All" : `${(100 * facts.seen).toFixed(0)} %`;
    notes.push(`${share} of these rows are among those the model learned from: the scores below flatter it. Judge it on rows it has not seen.`);
  }
  if (facts.n_trees_here < facts.model.n_trees) {
    notes.push(`To keep this page small, the explorer carries ${facts.n_trees_here} of the model's ${facts.model.n_trees} trees; everything else was worked out with all of them.`);
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
  const body = document.getElementById("loss-table");
  for (const l of facts.losses) {
    const row = body.insertRow();
    cell(row, l.name, "th").scope = "row";
    cell(row, l.loss.toFixed(3));
    cell(row, short(l.rmse));
    cell(row, `${(100 * l.covered).toFixed(1)} %`);
  }
}

function fillSurprising(facts, explorer) {
  const body = document.getElementById("surprising");
  for (const s of facts.surprising) {
    const row = body.insertRow();
    if (explorer) {
      const button = document.createElement("button");
      button.textContent = `row ${s.row}`;
      button.addEventListener("click", () => {
        explorer.choose(facts.explore.rows.indexOf(s.row));
        document.getElementById("explore").scrollIntoView({ behavior: "smooth" });
      });
      cell(row, "").appendChild(button);
    } else {
      cell(row, `row ${s.row}`);
    }
    cell(row, short(s.y));
    cell(row, `${short(s.low)} to ${short(s.high)}`);
    cell(row, s.loss.toFixed(2));
  }
}

function fillCuts(facts) {
  const cuts = Object.entries(facts.model.cuts).sort((a, b) => b[1] - a[1]).slice(0, 20);
  barChart(document.getElementById("cuts"), cuts.map(([name, share]) => ({ name, value: share, text: `${(100 * share).toFixed(1)} %`, strong: true })), 0);
}

function start() {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  for (const node of document.querySelectorAll("[data-fact]")) node.textContent = facts[node.dataset.fact].toLocaleString("en");
  fillModel(facts);
  fillNotes(facts);
  pitChart(document.getElementById("pit"), facts.calibration);
  coverageChart(document.getElementById("coverage"), facts.calibration);
  fillLosses(facts);
  fillCuts(facts);
  if (!facts.explore) document.getElementById("explore").remove();
  const mixture = facts.explore && new Mixture(facts.forest), explorer = facts.explore && new Explorer(facts, mixture);
  fillSurprising(facts, explorer);
  window.coverwalk = { facts, mixture, explorer };
}

start();
