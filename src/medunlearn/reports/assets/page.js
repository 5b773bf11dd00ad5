"use strict";
(() => {
  // A drawing leaves the page as a file: with the page's colours written out, since no style goes along.
  const saveDrawing = (figure) => {
    const drawing = [...figure.querySelectorAll("svg")].find((one) => one.clientWidth) || figure.querySelector("svg");
    const style = getComputedStyle(document.documentElement);
    const text = new XMLSerializer().serializeToString(drawing)
      .replace(/var\((--\w+)\)/g, (_, name) => style.getPropertyValue(name).trim())
      .replace("<svg", '<svg font-family="Helvetica, Arial, sans-serif"');
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.download = `${figure.dataset.name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "")}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const offerDrawing = (figure) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "SVG";
    button.title = `Save this figure: ${figure.dataset.name}`;
    button.addEventListener("click", () => saveDrawing(figure));
    figure.append(button);
  };

  const filterTable = (form) => {
    const rows = [...form.parentElement.querySelectorAll("tbody tr")];
    const values = new Map(rows.map((row) => [row, JSON.parse(row.dataset.filters || "{}")]));
    const selects = [...form.querySelectorAll("select")];
    const field = form.querySelector("input[type=search]");
    const texts = field ? new Map(rows.map((row) => [row, row.textContent.toLowerCase()])) : null;
    const fits = (value, wanted) => (Array.isArray(value) ? value.includes(wanted) : value === wanted);
    const apply = () => {
      const wanted = selects.filter((select) => select.value);
      const words = field ? field.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
      let shown = 0;
      for (const row of rows) {
        row.hidden = !wanted.every((select) => fits(values.get(row)[select.name], select.value)) ||
          !words.every((word) => texts.get(row).includes(word));
        shown += row.hidden ? 0 : 1;
      }
      form.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
    };
    begin(form, apply);
  };

  // The rows of a large table are data. A row's cells are made as those that stand in the page.
  const filterData = (form) => {
    const table = form.parentElement.querySelector("table");
    const { drawn, cells, rows, filters } = JSON.parse(form.parentElement.querySelector("script").textContent);
    const heads = [...table.querySelectorAll("thead th")];
    const kinds = heads.map((head) => head.className);
    const cards = table.classList.contains("cards");
    const selects = [...form.querySelectorAll("select")];
    const field = form.querySelector("input[type=search]");
    let texts = null;
    let fitting = [];
    let first = 0;
    const draw = () => {
      const body = document.createElement("tbody");
      for (const row of fitting.slice(first, first + drawn)) {
        const line = body.insertRow();
        rows[row].forEach((place, column) => {
          const entry = document.createElement(column ? "td" : "th");
          if (!column) entry.scope = "row";
          entry.className = kinds[column];
          entry.innerHTML = cells[place];
          if (cards && column && entry.querySelector(":scope > :not(small)")) entry.classList.add("words");
          else if (cards && column) entry.dataset.label = heads[column].textContent;
          line.append(entry);
        });
      }
      table.tBodies[0].replaceWith(body);
      const number = (value) => value.toLocaleString("en");
      const last = Math.min(first + drawn, fitting.length);
      form.querySelector("output").textContent =
        `${fitting.length ? `${number(first + 1)}–${number(last)} of ` : ""}${number(fitting.length)} rows` +
        (fitting.length < rows.length ? ` (${number(rows.length)} in all)` : "");
      for (const button of form.querySelectorAll("button"))
        button.disabled = button.dataset.step < 0 ? first === 0 : last === fitting.length;
    };
    const apply = () => {
      const wanted = selects.filter((select) => select.value)
        .map((select) => [filters[select.name].rows, filters[select.name].values.indexOf(select.value)]);
      const words = field ? field.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
      if (words.length && !texts) {
        const reader = document.createElement("template");
        texts = cells.map((cell) => {
          reader.innerHTML = cell;
          return reader.content.textContent.toLowerCase();
        });
      }
      const fits = (value, place) => (Array.isArray(value) ? value.includes(place) : value === place);
      fitting = [...rows.keys()].filter((row) => wanted.every(([values, place]) => fits(values[row], place)) &&
        words.every((word) => rows[row].some((place) => texts[place].includes(word))));
      first = 0;
      draw();
    };
    for (const button of form.querySelectorAll("button"))
      button.addEventListener("click", () => {
        first += Number(button.dataset.step) * drawn;
        draw();
      });
    begin(form, apply);
  };

  // Without this script, and in print, every option stands one below the other. Choices of one label go together.
  const showOption = (form) => {
    const select = form.querySelector("select");
    const options = [...form.parentElement.querySelectorAll(":scope > .option")];
    const same = [...document.querySelectorAll("select[data-switch]")].filter(
      (one) => one !== select && one.dataset.switch === select.dataset.switch && one.length === select.length,
    );
    const show = () => options.forEach((one, place) => one.classList.toggle("folded", place !== select.selectedIndex));
    form.addEventListener("followed", show);
    begin(form, () => {
      show();
      for (const other of same) {
        other.selectedIndex = select.selectedIndex;
        other.form.dispatchEvent(new Event("followed"));
      }
    });
  };

  const begin = (form, apply) => {
    for (const option of form.querySelectorAll("option[data-selected]")) option.selected = true;
    form.addEventListener("change", apply);
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    apply();
  };

  document.querySelectorAll("form.filters").forEach((form) =>
    (form.parentElement.querySelector(":scope > script") ? filterData : filterTable)(form));
  document.querySelectorAll("form.choices").forEach(showOption);
  document.querySelectorAll("figure.figure").forEach(offerDrawing);
})();
