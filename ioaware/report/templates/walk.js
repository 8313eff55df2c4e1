// Play a walk: each `section.walk` holds its data as JSON. Steps are drawn from the data alone; nothing is fetched.
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const LONGEST = 180, THINNEST = 8; // px of the sides of a matrix without values
  const CELL = { width: 46, height: 20 }; // px of a cell that shows its value
  const MAX_NUMBERS = 600; // cells of a matrix that shows values
  const WORDS = { read: "reads", write: "writes", atomic: "updates by atomics" };

  function element(name, attributes = {}, parent = null) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.append(made);
    return made;
  }

  function text(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "string") return value === "inf" ? "∞" : "−∞";
    const size = Math.abs(value);
    return (size === 0 || (size >= 0.005 && size < 1000) ? value.toFixed(2) : value.toExponential(0)).replace("-", "−");
  }

  const bytes = (count) => `${count.toLocaleString("en")} B`;

  // A variable as rows of cells: a vector is a column, as row maxima and sums are, unless it is a row of a matrix.
  function rowsOf(value, isRow) {
    if (!Array.isArray(value)) return [[value]];
    if (Array.isArray(value[0])) return value;
    return isRow ? [value] : value.map((each) => [each]);
  }

  // A matrix as a figure: cells that hold values, lit tiles, numbers where there is room.
  function figure({ name, detail, rows, cols, values, tiles, fresh, idle, numbers }) {
    const made = document.createElement("figure");
    made.className = `walk-matrix${idle ? " walk-idle" : ""}`;
    const caption = document.createElement("figcaption");
    const label = document.createElement("b");
    label.textContent = name;
    caption.append(label, ` ${detail}`);
    made.append(caption);

    const shown = numbers && values && rows * cols <= MAX_NUMBERS;
    const side = Math.min(18, LONGEST / Math.max(rows, cols));
    const width = shown ? CELL.width : Math.max(side, THINNEST / cols), height = shown ? CELL.height : Math.max(side, THINNEST / rows);
    const drawing = element("svg", {
      width: cols * width + 4, height: rows * height + 4, viewBox: `-2 -2 ${cols * width + 4} ${rows * height + 4}`, role: "img",
      "aria-label": describe(name, detail, values, shown, tiles),
    });
    element("rect", { class: values ? "walk-empty" : "walk-held", width: cols * width, height: rows * height }, drawing);
    if (values) held(drawing, values, width, height);
    if (shown || side >= 4) {
      const lines = [];
      for (let row = 0; row <= rows; row++) lines.push(`M0 ${row * height}H${cols * width}`);
      for (let col = 0; col <= cols; col++) lines.push(`M${col * width} 0V${rows * height}`);
      element("path", { class: "walk-grid", d: lines.join("") }, drawing);
    } else {
      element("rect", { class: "walk-grid", width: cols * width, height: rows * height }, drawing);
    }
    if (fresh) element("rect", { class: "walk-fresh", width: cols * width, height: rows * height }, drawing);
    for (const { kind, box } of tiles) {
      const [top, bottom, left, right] = box;
      const inset = kind === "read" ? 0 : 2; // a tile that is read and written shows both outlines
      element("rect", {
        class: `walk-tile walk-tile-${kind}`, x: left * width + inset, y: top * height + inset,
        width: (right - left) * width - 2 * inset, height: (bottom - top) * height - 2 * inset,
      }, drawing);
    }
    if (shown) values.forEach((line, row) => line.forEach((value, col) => {
      element("text", { class: "walk-number", x: (col + 0.5) * width, y: (row + 0.5) * height }, drawing).textContent = text(value);
    }));
    made.append(drawing);
    return made;
  }

  // One rectangle for each run of cells of a row that hold a value.
  function held(drawing, values, width, height) {
    values.forEach((line, row) => {
      for (let start = 0; start < line.length; start++) {
        if (line[start] === null) continue;
        let end = start;
        while (end < line.length && line[end] !== null) end++;
        element("rect", { class: "walk-held", x: start * width, y: row * height, width: (end - start) * width, height }, drawing);
        start = end;
      }
    });
  }

  function describe(name, detail, values, shown, tiles) {
    const lit = tiles.map(({ kind, label }) => `${WORDS[kind]} ${label}`).join(", ");
    const rows = shown ? `: ${values.map((line) => line.map((value) => text(value) || "not written").join(" ")).join("; ")}` : "";
    return `${name} ${detail}${lit ? `, ${lit}` : ""}${rows}`;
  }

  // Rows and columns that a tile covers in the matrix that all axes but the last make the rows of.
  function box(tile, tensor) {
    const ranges = tile.ranges, shape = tensor.shape;
    if (shape.length < 2) return [...(ranges[0] ?? [0, 1]), 0, 1];
    let first = 0, last = 0;
    for (let axis = 0; axis < shape.length - 1; axis++) {
      first = first * shape[axis] + ranges[axis][0];
      last = last * shape[axis] + ranges[axis][1] - 1;
    }
    return [first, last + 1, ...ranges[shape.length - 1]];
  }

  class Player {
    constructor(section) {
      this.section = section;
      this.data = JSON.parse(section.querySelector(".walk-data").textContent);
      this.tensors = new Map(this.data.tensors.map((tensor) => [tensor.name, tensor]));
      this.at = 0;
      this.timer = null;
      this.find = (selector) => section.querySelector(selector);
      this.slider = this.find("input[type=range]");
      for (const hidden of section.querySelectorAll("[hidden]")) hidden.hidden = false;
      this.find("[data-show=all]").parentElement.hidden = this.data.launches.every((one) => one.variables.every((each) => each.main));
      this.listen();
      this.draw();
    }

    listen() {
      const actions = {
        first: () => this.go(0), back: () => this.go(this.at - 1), forward: () => this.go(this.at + 1),
        last: () => this.go(this.data.steps.length - 1), play: () => this.toggle(),
      };
      const keys = { Home: "first", End: "last", ArrowLeft: "back", ArrowRight: "forward", " ": "play" };
      for (const button of this.section.querySelectorAll("[data-go]")) {
        button.addEventListener("click", () => { if (button.dataset.go !== "play") this.pause(); actions[button.dataset.go](); });
      }
      this.slider.addEventListener("input", () => { this.pause(); this.go(Number(this.slider.value) - 1); });
      for (const box of this.section.querySelectorAll("[data-show]")) box.addEventListener("change", () => this.draw());
      this.section.addEventListener("keydown", (event) => {
        const typing = event.target.matches("select, [type=checkbox], summary, .walk-scroll") || (event.key === " " && event.target.matches("button"));
        if (!(event.key in keys) || typing || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        if (event.key !== " ") this.pause();
        actions[keys[event.key]]();
      });
      window.addEventListener("beforeprint", () => { this.find("details").open = true; });
    }

    go(step) {
      this.at = Math.max(0, Math.min(this.data.steps.length - 1, step));
      if (this.at === this.data.steps.length - 1) this.pause();
      this.draw();
    }

    toggle() {
      if (this.timer) return this.pause();
      if (this.at === this.data.steps.length - 1) this.at = -1;
      const next = () => { this.timer = setTimeout(next, Number(this.find("select").value)); this.go(this.at + 1); };
      next();
      this.playing(true);
    }

    pause() {
      clearTimeout(this.timer);
      this.timer = null;
      this.playing(false);
    }

    playing(on) {
      this.find("[data-go=play]").textContent = on ? "Pause" : "Play";
      this.find(".walk-said").setAttribute("aria-live", on ? "off" : "polite");
    }

    // What HBM holds after the current step: the tensors as the launches found them, and every write since.
    contents() {
      const held = new Map();
      let launch = -1;
      for (const step of this.data.steps.slice(0, this.at + 1)) {
        while (launch < step.launch) {
          const one = this.data.launches[++launch];
          one.tensors.forEach((name, index) => held.set(name, one.contents[index].map((row) => [...row])));
        }
        for (const move of step.moves) {
          const values = held.get(move.tensor);
          if (values?.length) for (const [row, col, value] of move.cells ?? []) values[row][col] = value;
        }
      }
      return held;
    }

    draw() {
      const step = this.data.steps[this.at], launch = this.data.launches[step.launch];
      this.slider.value = this.at + 1;
      this.slider.setAttribute("aria-valuetext", `step ${this.at + 1} of ${this.data.steps.length}`);
      for (const name of ["first", "back"]) this.find(`[data-go=${name}]`).disabled = this.at === 0;
      for (const name of ["forward", "last"]) this.find(`[data-go=${name}]`).disabled = this.at === this.data.steps.length - 1;
      this.say(step, launch);
      this.drawHbm(step, launch);
      this.drawChip(step, launch);
      this.drawBytes(step);
      for (const [index, row] of this.section.querySelectorAll("tbody tr").entries()) {
        if (index === this.at) row.setAttribute("aria-current", "step"); else row.removeAttribute("aria-current");
      }
    }

    say(step, launch) {
      const loops = step.loops.map(({ name, index }) => `${name} = ${index}`).join(", ");
      this.find(".walk-where").textContent =
        `Step ${this.at + 1} of ${this.data.steps.length}: ${launch.kernel}, program (${step.program.join(", ")})${loops ? `, ${loops}` : ""}`;
      const parts = [];
      for (const [kind, words] of Object.entries(WORDS)) {
        const moved = step.moves.filter((move) => move.kind === kind);
        const total = moved.reduce((sum, move) => sum + move.bytes, 0);
        const arrow = this.find(`.walk-arrow-${kind}`);
        arrow.classList.toggle("walk-active", moved.length > 0);
        arrow.querySelector("b").textContent = moved.length ? bytes(total) : "";
        if (moved.length) parts.push(`${words} ${moved.map((move) => move.tile).join(", ")}`);
      }
      this.find(".walk-moves").textContent = `${parts.join("; ")}.`;
    }

    drawHbm(step, launch) {
      const held = this.contents(), numbers = this.find("[data-show=values]").checked;
      this.find(".walk-hbm").replaceChildren(...this.data.tensors.map((tensor) => {
        const moves = step.moves.filter((move) => move.tensor === tensor.name);
        const values = held.get(tensor.name);
        return figure({
          name: tensor.name, detail: `[${tensor.shape.join(", ")}] ${tensor.dtype}`, rows: tensor.matrix[0], cols: tensor.matrix[1],
          values: values?.length ? values : null, numbers, fresh: false, idle: !launch.tensors.includes(tensor.name),
          tiles: moves.map((move) => ({ kind: move.kind, label: move.tile, box: box(move, tensor) })),
        });
      }));
    }

    drawChip(step, launch) {
      const numbers = this.find("[data-show=values]").checked, all = this.find("[data-show=all]").checked;
      const shown = launch.variables.filter((variable) => variable.main || all);
      this.find(".walk-variables").replaceChildren(...shown.map(({ name, rows, cols, row }) => {
        const value = step.values[name];
        const known = value !== undefined, large = value?.rows !== undefined; // of a large variable only its size is here
        const values = known && !large ? rowsOf(value, row) : null;
        const size = values ? [values.length, values[0].length] : large ? [value.rows, value.cols] : [rows, cols];
        return figure({
          name, detail: known ? size.join(" × ") : "not yet", rows: size[0], cols: size[1], tiles: [], numbers,
          values: known ? values : Array.from({ length: rows }, () => Array(cols).fill(null)),
          fresh: step.assigned.includes(name), idle: !known,
        });
      }));
    }

    // Bytes so far as a bar up to the total, reads before writes, with a mark at the compulsory bytes.
    drawBytes(step) {
      const { steps, total_bytes: total, compulsory_bytes: floor } = this.data;
      const scale = 1000 / Math.max(total, floor ?? 0, 1), bar = this.find(".walk-bar");
      bar.replaceChildren();
      element("rect", { class: "walk-held", y: 6, width: total * scale, height: 20 }, bar);
      let left = 0;
      for (const kind of Object.keys(WORDS)) {
        const done = steps.slice(0, this.at + 1).flatMap((one) => one.moves).filter((move) => move.kind === kind);
        const width = done.reduce((sum, move) => sum + move.bytes, 0) * scale;
        if (width) element("rect", { class: `walk-bar-${kind}`, x: left, y: 6, width, height: 20 }, bar);
        left += width;
      }
      if (floor) element("path", { class: "walk-fresh", d: `M${floor * scale} 0V34` }, bar);
      const ratio = floor ? `; compulsory ${bytes(floor)} (the mark), so far ${(step.running_bytes / floor).toFixed(2)}×` : "";
      const said = `${bytes(step.running_bytes)} of ${bytes(total)}${ratio}`;
      bar.setAttribute("aria-label", said);
      this.find(".walk-count-text").textContent = said + (this.at === steps.length - 1 ? `. ${this.data.verdict}` : "");
    }
  }

  for (const section of document.querySelectorAll("section.walk")) new Player(section);
})();
