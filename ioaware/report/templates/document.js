"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("data").textContent);
  // Names of series, texts and pieces of texts are written once: see figure_data.py.
  Object.values(figures).filter((figure) => figure.names).forEach((figure) => {
    figure.rows = figure.runs.flatMap(([cell, panel, name, ...columns]) => columns[0].map((_, at) => [cell, panel, figure.names[name], ...columns.map((column) => column[at])]));
    figure.rows.forEach((row) => {
      const text = row[5];
      row[5] = typeof text === "number" ? figure.rows[text][5] : text && text.map((piece) => (typeof piece === "number" ? figure.pieces[piece] : piece)).join("");
    });
    delete figure.runs;
    delete figure.names;
    delete figure.pieces;
  });
  const tip = document.getElementById("tip");
  const SVG = "http://www.w3.org/2000/svg";
  document.querySelectorAll(".buttons").forEach((buttons) => { buttons.hidden = false; });

  // Numbers as the page writes them: significant digits, units of ten for bytes, powers of two for sizes.
  const digits = (value, count = 3) => Number(value.toPrecision(count)).toLocaleString("en-US", { maximumFractionDigits: 12 });
  const units = (value, step, names) => {
    let at = 0;
    while (Math.abs(value) >= step && at < names.length - 1) { value /= step; at += 1; }
    return digits(value) + names[at];
  };
  const written = {
    bytes: (value) => units(value, 1000, [" B", " kB", " MB", " GB", " TB", " PB"]),
    size: (value) => (value >= 1024 && value % 1024 === 0 ? units(value, 1024, ["", "Ki", "Mi", "Gi"]) : digits(value, 6)),
    factor: (value) => digits(value) + "×",
  };
  const label = (unit, value) => (written[unit] || digits)(value);

  // A scale of an area: values to fractions of its length and back.
  const scaleOf = (area, axis) => {
    const [low, high] = area.getAttribute("data-" + axis).split(" ").map(Number);
    const log = area.getAttribute(`data-${axis}-scale`) === "log";
    const [to, from] = log ? [Math.log, Math.exp] : [(value) => value, (value) => value];
    const [first, last] = [to(low), to(high)];
    return { log, unit: area.getAttribute(`data-${axis}-unit`), at: (value) => (to(value) - first) / (last - first), value: (at) => from(first + at * (last - first)) };
  };
  const windowOf = (area) => area.view || (area.view = { x: [0, 1], y: [0, 1] });

  const ticks = (scale, [start, end]) => {
    const [low, high] = [scale.value(start), scale.value(end)];
    const found = [];
    if (scale.log && high / low > 20) {
      const base = scale.unit === "size" ? 2 : 10;
      const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
      const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
      const stride = Math.max(1, Math.ceil((last - first + 1) / 7));
      for (let power = last; power >= first; power -= stride) found.unshift(base ** power);
      return found;
    }
    const rough = (high - low) / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
    for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(value);
    return found;
  };

  const make = (name, attributes, words) => {
    const made = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    if (words !== undefined) made.textContent = words;
    return made;
  };

  // Draws an area's window: the view box moves, the ticks are written anew. Marks and widths of lines stay as they are.
  const draw = (area) => {
    const { x, y } = windowOf(area);
    const [width, height] = [area.width.baseVal.value, area.height.baseVal.value];
    const [left, top] = [area.x.baseVal.value, area.y.baseVal.value];
    area.setAttribute("viewBox", `${x[0] * width} ${(1 - y[1]) * height} ${(x[1] - x[0]) * width} ${(y[1] - y[0]) * height}`);
    const group = area.parentElement;
    const [across, up] = [scaleOf(area, "x"), scaleOf(area, "y")];
    const xs = group.querySelector(".x-ticks"), ys = group.querySelector(".y-ticks");
    if (xs.childElementCount || xs.dataset.last) {
      xs.dataset.last = "1";
      xs.replaceChildren(...ticks(across, x).map((value) => make("text", { x: left + ((across.at(value) - x[0]) / (x[1] - x[0])) * width, y: top + height + 16, "text-anchor": "middle" }, label(across.unit, value))));
    }
    ys.replaceChildren(...ticks(up, y).map((value) => make("text", { x: left - 7, y: top + height - ((up.at(value) - y[0]) / (y[1] - y[0])) * height + 4, "text-anchor": "end" }, label(up.unit, value))));
    area.querySelectorAll(".grid").forEach((line) => { line.style.display = x[0] === 0 && x[1] === 1 && y[0] === 0 && y[1] === 1 ? "" : "none"; });
    group.querySelectorAll(".end").forEach((name) => { name.style.display = x[0] === 0 && x[1] === 1 && y[0] === 0 && y[1] === 1 ? "" : "none"; });
  };
  const zoom = (area, factor, atX = 0.5, atY = 0.5) => {
    const view = windowOf(area);
    for (const [axis, at] of [["x", atX], ["y", atY]]) {
      const [start, end] = view[axis];
      const size = Math.min(1, Math.max(0.01, (end - start) * factor));
      const first = Math.min(1 - size, Math.max(0, start + at * (end - start - size)));
      view[axis] = [first, first + size];
    }
    draw(area);
  };
  const all = (area) => { area.view = { x: [0, 1], y: [0, 1] }; draw(area); };

  // The names of a figure's series that its legend hides.
  const hiddenIn = (figure) => new Set([...figure.querySelectorAll('.legend button[aria-pressed="false"]')].flatMap((button) => JSON.parse(button.parentElement.dataset.series)));

  // The points of an area, by the figure's data; the one nearest to a place on the screen.
  const points = (area) => {
    if (area.points) return area.points;
    const cell = Number(area.closest("[data-cell]").dataset.cell), panel = Number(area.dataset.panel);
    const [across, up] = [scaleOf(area, "x"), scaleOf(area, "y")];
    const figure = area.closest("[data-figure]"), rows = figures[figure.dataset.figure].rows, hidden = hiddenIn(figure);
    area.points = rows.filter((row) => row[0] === cell && row[1] === panel && row[5] !== "" && !hidden.has(row[2])).map((row) => ({ area, x: across.at(row[3]), y: up.at(row[4]), series: row[2], text: row[5] }));
    return area.points;
  };
  const areas = [...document.querySelectorAll("[data-figure] .area")];
  const isShown = (area) => area.getClientRects().length > 0;
  // The same point elsewhere: of equal text in any figure, else of equal x in the panels of its cell.
  let byText = null;
  const linked = (point) => {
    if (!byText) {
      byText = new Map();
      areas.filter(isShown).forEach((area) => points(area).forEach((other) => byText.set(other.text, [...(byText.get(other.text) || []), other])));
    }
    const same = (byText.get(point.text) || [point]).filter((other) => isShown(other.area));
    if (same.length > 1) return same;
    const cell = point.area.closest(".plot");
    return areas.filter((area) => area.closest(".plot") === cell).flatMap((area) => points(area).filter((other) => other === point || (area !== point.area && Math.abs(other.x - point.x) < 1e-9)));
  };
  const forget = () => { areas.forEach((area) => { delete area.points; }); byText = null; };
  const ring = ({ area, x, y }, name) => area.append(make("path", { class: name, d: `M${x * area.width.baseVal.value},${(1 - y) * area.height.baseVal.value}h0.01` }));
  const placeOf = (area, point) => {
    const box = area.getBoundingClientRect(), { x, y } = windowOf(area);
    return [box.left + ((point.x - x[0]) / (x[1] - x[0])) * box.width, box.bottom - ((point.y - y[0]) / (y[1] - y[0])) * box.height];
  };
  const show = (area, point) => {
    const [left, top] = placeOf(area, point);
    document.querySelectorAll(".at").forEach((one) => one.remove());
    linked(point).forEach((other) => ring(other, "at"));
    tip.textContent = point.text.replaceAll("; ", "\n");
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(left + 12, window.innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, top - tip.offsetHeight - 10) + "px";
  };
  const nearest = (area, event) => {
    let best = null, least = 40;
    for (const point of points(area)) {
      const [left, top] = placeOf(area, point);
      const distance = Math.hypot(left - event.clientX, top - event.clientY);
      if (distance < least) [best, least] = [point, distance];
    }
    return best;
  };
  let kept = null;  // the point that a click keeps selected
  const hide = () => {
    if (kept && isShown(kept.area)) { show(kept.area, kept); return; }
    tip.hidden = true;
    document.querySelectorAll(".at").forEach((one) => one.remove());
  };
  const keep = (point) => { kept = point; hide(); };

  for (const area of areas) {
    // An inner svg has no surface of its own: between its lines no event would reach it.
    area.prepend(make("rect", { width: area.width.baseVal.value, height: area.height.baseVal.value, fill: "none", "pointer-events": "all" }));
    area.addEventListener("pointermove", (event) => {
      if (area.drag) {
        const box = area.getBoundingClientRect(), view = windowOf(area);
        const moved = { x: -(event.clientX - area.drag.x) / box.width, y: (event.clientY - area.drag.y) / box.height };
        for (const axis of ["x", "y"]) {
          const [start, end] = area.drag.view[axis];
          const first = Math.min(1 - (end - start), Math.max(0, start + moved[axis] * (end - start)));
          view[axis] = [first, first + end - start];
        }
        draw(area);
        return;
      }
      const best = nearest(area, event);
      if (best) show(area, best); else hide();
    });
    area.addEventListener("click", (event) => keep(nearest(area, event)));
    area.addEventListener("pointerleave", hide);
    area.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || windowOf(area).x[1] - windowOf(area).x[0] === 1) return;
      area.setPointerCapture(event.pointerId);
      area.drag = { x: event.clientX, y: event.clientY, view: structuredClone(windowOf(area)) };
    });
    for (const end of ["pointerup", "pointercancel"]) area.addEventListener(end, () => { area.drag = null; });
    area.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = area.getBoundingClientRect();
      zoom(area, event.deltaY < 0 ? 0.8 : 1.25, (event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height);
    }, { passive: false });
    area.addEventListener("dblclick", () => all(area));
    area.addEventListener("blur", hide);
    area.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowLeft: -1 };
      if (event.key in steps) {
        const count = points(area).length;
        if (!count) return;
        area.chosen = area.chosen === undefined ? 0 : (area.chosen + steps[event.key] + count) % count;
        show(area, points(area)[area.chosen]);
      } else if (event.key === "+" || event.key === "=") zoom(area, 0.7);
      else if (event.key === "-") zoom(area, 1 / 0.7);
      else if (event.key === "0") all(area);
      else if (event.key === "Enter" && area.chosen !== undefined) keep(points(area)[area.chosen]);
      else if (event.key === "Escape") keep(null);
      else return;
      event.preventDefault();
    });
  }

  const areasOf = (button) => button.closest("figure").querySelectorAll(".area");
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => areasOf(button).forEach((area) => { if (button.dataset.zoom === "all") all(area); else zoom(area, button.dataset.zoom === "in" ? 0.7 : 1 / 0.7); }));
  }
  // Names in a legend show and hide their series.
  for (const item of document.querySelectorAll(".legend li[data-series]")) {
    const button = document.createElement("button"), figure = item.closest("figure");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(...item.childNodes);
    item.append(button);
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      const hidden = hiddenIn(figure);
      figure.querySelectorAll("[data-s]").forEach((drawn) => { drawn.style.display = hidden.has(drawn.dataset.s) ? "none" : ""; });
      forget();
      keep(null);
    });
  }
  // A field that finds points by their text, in figures of many points, and rows of long tables.
  const field = (label) => {
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "filter";
    input.setAttribute("aria-label", label);
    return input;
  };
  for (const figure of document.querySelectorAll("figure[data-figure]")) {
    const data = figures[figure.dataset.figure];
    if (data.kind !== "plot" || data.rows.length < 60) continue;
    const input = field(`Find points of ${data.title}`);
    figure.querySelector(".buttons").append(input);
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      figure.querySelectorAll(".hit").forEach((one) => one.remove());
      figure.classList.toggle("dim", wanted !== "");
      if (wanted) figure.querySelectorAll(".area").forEach((area) => points(area).filter((point) => point.text.toLowerCase().includes(wanted)).forEach((point) => ring(point, "hit")));
    });
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const rows = [...table.tBodies[0].rows], region = table.closest(".scroll");
    if (rows.length < 20) continue;
    const input = field(`Find rows of ${region.getAttribute("aria-label")}`);
    region.before(input);
    input.addEventListener("input", () => { rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(input.value.trim().toLowerCase()); }); });
  }
  // A cell that begins like a formula is quoted, so that a spreadsheet reads it as text.
  const quoted = (value) => {
    const words = value === null ? "" : String(value);
    const plain = typeof value === "string" && /^[\s\p{C}=+\-@＝＋－＠]/u.test(words) ? "'" + words : words;
    return /[",\n\r]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  };
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => {
      const name = button.closest("figure").dataset.figure, figure = figures[name], kind = button.dataset.save;
      const words = kind === "json" ? JSON.stringify(figure, null, 1) : [figure.columns, ...figure.rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([words], { type: kind === "json" ? "application/json" : "text/csv" }));
      link.download = `${name}.${kind}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // Paper shows what the page folds away.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    unfolded.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => {
    unfolded.forEach((one) => { one.open = false; });
    unfolded = [];
  });

  // An open system takes the page's width; its name stays where it was pressed.
  for (const name of document.querySelectorAll(".families summary")) {
    name.addEventListener("click", () => {
      const { top } = name.getBoundingClientRect();
      setTimeout(() => window.scrollBy(0, name.getBoundingClientRect().top - top));
    });
  }

  const order = (row, column) => (row.cells[column].dataset.v === undefined ? row.cells[column].textContent : Number(row.cells[column].dataset.v));
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("th button").forEach((button, column) => {
      button.addEventListener("click", () => {
        const head = button.parentElement, up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        const empty = rows.some((row) => row.cells[column].dataset.v !== undefined) ? Infinity : "";
        const value = (row) => (typeof order(row, column) === typeof empty ? order(row, column) : empty);
        rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (up ? 1 : -1));
        table.tBodies[0].append(...rows);
      });
    });
  }
})();
