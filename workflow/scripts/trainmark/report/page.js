"use strict";
// Makes tables of class "sorts" sort by their columns, and those of class "filters" filter their rows. The page works without, too.
const MOST = 500; // rows shown of a longer table, so that the page stays quick; a button shows all

function filterable(table) {
  const rows = [...table.tBodies[0].rows], region = table.parentElement, bar = document.createElement("p");
  bar.className = "filter";
  bar.innerHTML = '<label>Filter rows <input type="search"></label><span role="status"></span><button type="button">Show all</button>';
  const [input, count, all] = ["input", "span", "button"].map((name) => bar.querySelector(name));
  input.setAttribute("aria-label", `Filter rows: ${region.getAttribute("aria-label")}`);
  const number = (value) => value.toLocaleString("en");
  let most = MOST, waiting, texts;
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !texts) {
      texts = new Map(rows.map((row) => [row, [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase()]));
    }
    let found = 0;
    for (const row of table.tBodies[0].rows) {
      const matches = words.every((word) => texts.get(row).includes(word));
      row.hidden = !matches || found >= most;
      found += matches;
    }
    count.textContent = `${number(found)} of ${number(rows.length)} rows${found > most ? `, ${number(most)} shown` : ""}`;
    all.hidden = found <= most;
  };
  all.addEventListener("click", () => { most = Infinity; show(); });
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, rows.length > MOST ? 150 : 0); });
  region.before(bar);
  show();
  return show;
}

function sortable(table, show) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const cell = row.cells[column], number = cell.dataset.value ?? cell.querySelector("[data-value]")?.dataset.value;
    const text = number ?? cell.textContent.trim();
    return text !== "" && !isNaN(text) ? Number(text) : text;
  };
  // Texts that stand for missing numbers come last.
  const compare = (a, b, sign) => typeof a !== typeof b ? (typeof a === "number" ? -1 : 1)
    : sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  heads.forEach((head, column) => {
    head.innerHTML = `<button type="button">${head.innerHTML}</button>`;
    head.firstChild.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const keyed = [...body.rows].map((row) => [value(row, column), row]);
      keyed.sort(([a], [b]) => compare(a, b, sign));
      body.append(...keyed.map(([, row]) => row));
      show();
    });
  });
}

for (const table of document.querySelectorAll("table.sorts")) {
  sortable(table, table.classList.contains("filters") ? filterable(table) : () => {});
}
// A link to a row that is not shown shows it, and a link into a folded part unfolds it.
const reveal = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  for (let part = target; part; part = part.parentElement) {
    if (part.tagName === "DETAILS") part.open = true;
    if (part.hidden) { part.hidden = false; target.scrollIntoView(); }
  }
};
addEventListener("hashchange", reveal);
reveal();
