"use strict";
(() => {
  const root = document.documentElement;
  const DIRECTIONS = 16;
  const RADII = [24, 34, 48, 64, 84, 108];
  const LABEL_HEIGHT = 17;
  const MOST_OVERLAP = 60;

  // A value that starts with "--" names a CSS variable: figures follow the light or the dark scheme.
  const themed = (value, style) => {
    if (typeof value === "string") {
      return value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => themed(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, themed(item, style)]));
    }
    return value;
  };

  const overlap = (a, b) =>
    Math.max(0, Math.min(a.x1, b.x1) - Math.max(a.x0, b.x0)) *
    Math.max(0, Math.min(a.y1, b.y1) - Math.max(a.y0, b.y0));
  const box = (x, y, width, height) => ({
    x0: x - width / 2, x1: x + width / 2, y0: y - height / 2, y1: y + height / 2,
  });

  const pencil = document.createElement("canvas").getContext("2d");
  const widthOf = (text, font) => {
    pencil.font = `600 13px ${font}`;
    return pencil.measureText(text).width + 8;
  };

  // What a label must not cover: points, and less strictly the bars of their intervals.
  const obstacles = (traces, axes) => traces.flatMap((trace) => {
    const { x, y } = axes;
    const px = x.d2p(trace.x[0]);
    const py = y.d2p(trace.y[0]);
    const found = [{ ...box(px, py, 20, 20), weight: 8, point: true }];
    const ex = trace.error_x, ey = trace.error_y;
    if (ex && ex.array) {
      const ends = [x.d2p(trace.x[0] - ex.arrayminus[0]), x.d2p(trace.x[0] + ex.array[0])];
      found.push({ x0: ends[0], x1: ends[1], y0: py - 3, y1: py + 3, weight: 1.5 });
    }
    if (ey && ey.array) {
      const ends = [y.d2p(trace.y[0] + ey.array[0]), y.d2p(trace.y[0] - ey.arrayminus[0])];
      found.push({ x0: px - 3, x1: px + 3, y0: ends[0], y1: ends[1], weight: 1.5 });
    }
    return found;
  });

  const candidates = (point, width) => RADII.flatMap((radius, ring) =>
    Array.from({ length: DIRECTIONS }, (_, number) => {
      const angle = (2 * Math.PI * number) / DIRECTIONS;
      const dx = Math.cos(angle) * (radius + (width / 2 - 6) * Math.abs(Math.cos(angle)));
      const dy = -Math.sin(angle) * radius;
      return { dx, dy, ring, at: box(point.x + dx, point.y + dy, width, LABEL_HEIGHT) };
    }));

  // The line from a point to its label, as small boxes.
  const leader = (point, dx, dy) =>
    [0.25, 0.4, 0.55, 0.7].map((share) => box(point.x + dx * share, point.y + dy * share, 5, 5));

  // Each label takes the nearest place where it covers least; the references choose first.
  const placeLabels = (figure) => {
    const { xaxis, yaxis, font } = figure._fullLayout;
    const axes = { x: xaxis, y: yaxis };
    const blocked = obstacles(figure.data, axes);
    const labels = [];
    let left = 0;
    const annotations = [...figure.data].reverse().flatMap((trace) => {
      const point = { x: xaxis.d2p(trace.x[0]), y: yaxis.d2p(trace.y[0]) };
      if (point.x < 0 || point.x > xaxis._length || point.y < 0 || point.y > yaxis._length) return [];
      const plainText = new DOMParser().parseFromString(trace.name, "text/html").body.textContent;
      const width = widthOf(plainText, font.family);
      const cost = ({ at, dx, dy, ring }) => {
        const outside = at.x0 < 2 || at.x1 > xaxis._length - 2 || at.y0 < 2 || at.y1 > yaxis._length - 2;
        const covered = blocked.reduce((sum, one) => sum + overlap(at, one) * one.weight, 0);
        const crossed = ring ? leader(point, dx, dy).filter((one) => labels.some((label) => overlap(one, label))) : [];
        return ring * 30 + (outside ? 1e6 : 0) + covered + crossed.length * 150;
      };
      const best = candidates(point, width)
        .map((one) => ({ ...one, cost: cost(one) }))
        .reduce((a, b) => (b.cost < a.cost ? b : a));
      const solid = [...labels, ...blocked.filter((one) => one.point)];
      const hidden = best.cost >= 1e6 || solid.some((one) => overlap(best.at, one) > MOST_OVERLAP);
      if (hidden) {
        left += 1;
        return [];
      }
      labels.push(best.at);
      blocked.push({ ...best.at, weight: 20 });
      if (best.ring) blocked.push(...leader(point, best.dx, best.dy).map((one) => ({ ...one, weight: 8 })));
      return [{
        x: trace.x[0], y: trace.y[0], text: trace.name, ax: best.dx, ay: best.dy,
        showarrow: true, arrowhead: 0, arrowwidth: 1, arrowcolor: best.ring > 0 ? trace.marker.color : "rgba(0,0,0,0)",
        standoff: 8, borderpad: 1, captureevents: false,
        font: { color: trace.marker.color, size: 13, weight: 600 },
      }];
    });
    // A label that has no free place is left out, and the legend says what the colours are.
    const legend = figure.closest(".lead, section")?.querySelector(".legend.spare");
    if (legend) legend.hidden = left === 0;
    const marks = (figure.spec.layout.annotations || []).map((mark) => themed(mark, getComputedStyle(root)));
    return Plotly.relayout(figure, { annotations: [...marks, ...annotations] });
  };

  const templateElement = document.getElementById("figure-template");
  const TEMPLATE = templateElement ? JSON.parse(templateElement.textContent) : {};

  const draw = async (figure, width) => {
    const style = getComputedStyle(root);
    const { data, layout, labels } = themed({ ...figure.spec, layout: { ...figure.spec.layout, template: TEMPLATE } }, style);
    const zoom = labels && matchMedia("(pointer: fine)").matches ? "zoom" : false;
    const size = width ? { width, autosize: false } : { autosize: true };
    await Plotly.react(figure, data, { ...layout, ...size, dragmode: zoom }, { displayModeBar: false });
    if (labels) await placeLabels(figure);
  };

  const prepare = async (figure) => {
    figure.spec = JSON.parse(figure.querySelector("script").textContent);
    figure.replaceChildren();
    figure.classList.add("drawn");
    let width = figure.clientWidth;
    // A figure in a folded part of the page has no width yet; it is drawn when it gets one.
    if (width) await draw(figure);
    const listen = () => {
      if (!figure.spec.labels || figure.listens) return;
      figure.listens = true;
      figure.on("plotly_relayout", (change) => {
        if (Object.keys(change).some((key) => key.includes("axis"))) placeLabels(figure);
      });
    };
    if (width) listen();
    new ResizeObserver(async () => {
      if (root.dataset.print === undefined && figure.clientWidth && figure.clientWidth !== width) {
        width = figure.clientWidth;
        await draw(figure);
        listen();
      }
    }).observe(figure);
  };

  // plotly.js is packed in the page; the page's policy runs it by its hash.
  const loadPlotly = async () => {
    const archive = document.getElementById("plotly");
    if (!archive || !globalThis.DecompressionStream) return false;
    const bytes = Uint8Array.from(atob(archive.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    return Boolean(globalThis.Plotly);
  };

  const drawAll = async () => {
    const figures = [...document.querySelectorAll(".figure")];
    if (!figures.length || !(await loadPlotly())) return;
    figures.forEach(prepare);
    const drawn = () => figures.filter((one) => one.clientWidth);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures.forEach((one) => draw(one)));
    addEventListener("beforeprint", () => {
      root.dataset.print = "";
      drawn().forEach((one) => draw(one, one.matches(".large, .wide") ? 640 : 300));
    });
    addEventListener("afterprint", () => {
      delete root.dataset.print;
      drawn().forEach((one) => draw(one));
    });
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

  // Without this script, and in print, every option stands one below the other.
  const showOption = (form) => {
    const select = form.querySelector("select");
    const options = [...form.parentElement.querySelectorAll(":scope > .option")];
    begin(form, () => options.forEach((one, place) => one.classList.toggle("folded", place !== select.selectedIndex)));
  };

  const begin = (form, apply) => {
    for (const option of form.querySelectorAll("option[data-selected]")) option.selected = true;
    form.addEventListener("change", apply);
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    apply();
  };

  document.querySelectorAll("form.filters").forEach(filterTable);
  document.querySelectorAll("form.choices").forEach(showOption);
  drawAll();
})();
