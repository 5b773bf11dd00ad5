"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const store = "medunlearn-labels-" + data.sheet;
  // Ten has no key of its own; 0 stands for it.
  const keys = new Map(data.labels.map((label) => [label === "10" ? "0" : label[0].toLowerCase(), label]));
  let state = { annotator: "", labels: {}, comments: {} };
  let at = 0;
  let unsaved = false;

  try {
    const kept = JSON.parse(localStorage.getItem(store));
    if (kept && kept.labels && kept.comments) state = kept;
  } catch (error) {
    // A browser that keeps nothing for local files still labels; only Save keeps the labels then.
  }

  function keep() {
    unsaved = true;
    try {
      localStorage.setItem(store, JSON.stringify(state));
    } catch (error) {
      return;
    }
  }

  function show() {
    const one = data.cases[at];
    const fields = one.fields.flatMap(([name, text]) => {
      const head = document.createElement("h2");
      const body = document.createElement("p");
      head.textContent = name;
      body.className = "text";
      body.tabIndex = 0;
      body.textContent = text;
      return [head, body];
    });
    $("fields").replaceChildren(...fields);
    for (const button of $("choices").children) {
      button.setAttribute("aria-pressed", String(state.labels[one.id] === button.value));
    }
    $("comment").value = state.comments[one.id] || "";
    $("place").textContent = `Case ${at + 1} of ${data.cases.length}`;
    $("done").textContent = `${Object.keys(state.labels).length} of ${data.cases.length} labelled`;
    $("back").disabled = at === 0;
    $("next").disabled = at === data.cases.length - 1;
  }

  function go(step) {
    at = Math.min(Math.max(at + step, 0), data.cases.length - 1);
    show();
  }

  function choose(label) {
    state.labels[data.cases[at].id] = label;
    keep();
    go(1);
  }

  const formula = new RegExp(data.formula);

  function cell(text) {
    const plain = formula.test(text) ? "'" + text : text;
    return '"' + plain.replace(/"/g, '""') + '"';
  }

  function save() {
    const rows = data.cases
      .filter((one) => Object.hasOwn(state.labels, one.id) || state.comments[one.id])
      .map((one) => [one.id, state.annotator, state.labels[one.id] || "", state.comments[one.id] || ""]);
    const text = [["case_id", "annotator", "label", "comment"], ...rows]
      .map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `labels-${data.task}-${state.annotator.replace(/[^A-Za-z0-9]+/g, "_") || "unnamed"}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
    unsaved = false;
  }

  for (const [key, label] of keys) {
    const button = document.createElement("button");
    button.type = "button";
    button.value = label;
    button.textContent = `${label} (${key.toUpperCase()})`;
    button.addEventListener("click", () => choose(label));
    $("choices").append(button);
  }
  $("annotator").value = state.annotator;
  $("annotator").addEventListener("input", (event) => { state.annotator = event.target.value.trim(); keep(); });
  $("comment").addEventListener("input", (event) => {
    state.comments[data.cases[at].id] = event.target.value;
    keep();
  });
  $("save").addEventListener("click", save);
  $("back").addEventListener("click", () => go(-1));
  $("next").addEventListener("click", () => go(1));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
    const key = event.key.toLowerCase();
    if (keys.has(key)) choose(keys.get(key));
    else if (key === "arrowleft") go(-1);
    else if (key === "arrowright") go(1);
    else if (key === "s") save();
    else return;
    event.preventDefault();
  });
  window.addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });
  show();
})();
