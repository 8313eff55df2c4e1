"use strict";
(() => {
  const graphs = JSON.parse(document.getElementById("graphs").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 520px)");

  // "@flash2" under any key that ends in "color" becomes the theme's value of the custom property --flash2.
  const themed = (value, key, style) => {
    if (typeof value === "string") {
      return /color$/.test(key) && value[0] === "@" ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => themed(item, key, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, themed(item, name, style)]));
  };

  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    for (const place of document.querySelectorAll("[data-graph]")) {
      const graph = themed(graphs[place.dataset.graph], "", style);
      if (narrow.matches) graph.layout.font.size = 10;
      Plotly.react(place, graph.data, graph.layout, { responsive: true, displayModeBar: false });
    }
  };
  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);

  const order = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("th button").forEach((button, column) => {
      button.addEventListener("click", () => {
        const head = button.parentElement;
        const up = head.getAttribute("aria-sort") !== "ascending";
        table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        const text = rows.some((row) => row.cells[column].dataset.v !== undefined) ? Infinity : "";
        const value = (row) => (typeof order(row, column) === typeof text ? order(row, column) : text);
        rows.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (up ? 1 : -1));
        table.tBodies[0].append(...rows);
      });
    });
  }
})();
