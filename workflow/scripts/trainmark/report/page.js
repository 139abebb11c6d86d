"use strict";
// Makes tables of class "sorts" sort by their columns, and those of class "filters" filter their rows. The page also works without.
for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = (cell.querySelector("[data-value]") || cell).textContent.trim();
    return text !== "" && !isNaN(text) ? Number(text) : text;
  };
  // Numbers come before texts, which stand for missing numbers.
  const compare = (a, b) => typeof a !== typeof b ? (typeof a === "number" ? -1 : 1)
    : typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const keyed = [...body.rows].map((row) => [value(row, column), row]);
      keyed.sort(([a], [b]) => (typeof a === typeof b ? sign : 1) * compare(a, b));
      body.append(...keyed.map(([, row]) => row));
    });
  });
}
for (const table of document.querySelectorAll("table.filters")) {
  const rows = [...table.tBodies[0].rows], region = table.parentElement;
  const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
  const bar = document.createElement("p"), label = document.createElement("label");
  const input = document.createElement("input"), count = document.createElement("span");
  bar.className = "filter";
  input.type = "search";
  count.setAttribute("role", "status");
  input.setAttribute("aria-label", `Filter rows: ${region.getAttribute("aria-label")}`);
  label.append("Filter rows ", input);
  bar.append(label, count);
  region.before(bar);
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      shown += !row.hidden;
    });
    count.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
  };
  let waiting;
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, rows.length > 500 ? 150 : 0); });
  filter();
  // A link to a row that is filtered out shows all rows again.
  addEventListener("hashchange", () => {
    const row = document.getElementById(location.hash.slice(1));
    if (row && row.hidden && table.contains(row)) { input.value = ""; filter(); row.scrollIntoView(); }
  });
}
// A link into a folded part unfolds it.
const unfold = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
};
addEventListener("hashchange", unfold);
unfold();
