"use strict";
// Makes the legends of figures switches: a click, Enter or a blank on a name hides what is drawn of its trainers, and shows it again.
// Figures work without, too. The ids are those of report/figures/svg.py, after the prefix of the page.
for (const svg of document.querySelectorAll("svg[role=img]")) {
  const off = new Set(), drawn = [...svg.querySelectorAll("[id*='-trainer-']")];
  const trainer = (part) => part.id.split("-trainer-").pop().split("-")[0];
  for (const name of svg.querySelectorAll("[id*='-legend-']:not([id$='-mark'])")) {
    const places = name.id.split("-").pop().split("."), mark = document.getElementById(`${name.id}-mark`);
    if (!drawn.some((part) => places.includes(trainer(part)))) continue;
    const toggle = () => {
      if (!off.delete(places)) off.add(places);
      const hidden = [...off].flat();
      name.setAttribute("aria-checked", !off.has(places));
      for (const part of [name, mark]) part.style.opacity = off.has(places) ? "0.35" : "";
      for (const part of drawn) part.style.display = hidden.includes(trainer(part)) ? "none" : "";
    };
    svg.setAttribute("role", "group"); // the parts of an image are hidden from screen readers
    name.setAttribute("role", "switch");
    name.setAttribute("aria-checked", "true");
    name.setAttribute("aria-label", `Show ${name.textContent.replace(/\s+/g, " ").trim()}`);
    name.setAttribute("tabindex", "0");
    for (const part of [name, mark]) {
      part.style.cursor = "pointer";
      part.addEventListener("click", toggle);
    }
    name.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault(); // a blank would scroll the page
      toggle();
    });
  }
}
