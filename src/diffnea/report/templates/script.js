"use strict";
// Tables: sorted by a click on a heading, filtered by words and choices.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const keys = new Map([...body.rows].map((row) => [row, [...row.cells].map((cell) => cell.dataset.key)]));
  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const number = head.classList.contains("number");
      const order = [...body.rows].sort((a, b) => {
        const [x, y] = [keys.get(a)[column], keys.get(b)[column]];
        if (!number) return x.localeCompare(y);
        const [p, q] = [x === "inf" ? Infinity : Number(x), y === "inf" ? Infinity : Number(y)];
        return p === q ? 0 : p - q;
      });
      body.append(...(down ? order.reverse() : order));
    });
  });
}
const results = document.getElementById("results-table");
const count = document.getElementById("results-count");
const filters = [...document.querySelectorAll("[data-filter]")];
function filter() {
  let shown = 0;
  for (const row of results.tBodies[0].rows) {
    const fits = filters.every((field) => {
      const wanted = field.value.trim().toLowerCase();
      if (!wanted) return true;
      if (field.dataset.filter === "all") return wanted.split(/\s+/).every((word) => row.textContent.toLowerCase().includes(word));
      return row.cells[Number(field.dataset.filter)].dataset.key.toLowerCase() === wanted;
    });
    row.classList.toggle("hidden", !fits);
    shown += fits;
  }
  count.textContent = `${shown} of ${results.tBodies[0].rows.length} rows`;
}
if (results) {
  for (const field of filters) field.addEventListener("input", filter);
  document.getElementById("results-reset").addEventListener("click", () => {
    for (const field of filters) field.value = "";
    filter();
  });
  filter();
}

// Charts: the model under the pointer stands out everywhere; a click keeps it.
const pointed = document.getElementById("pointed");
let kept = null;
function light(name) {
  for (const old of document.querySelectorAll(".lit")) old.classList.remove("lit");
  document.body.classList.toggle("picked", name !== null);
  pointed.classList.toggle("on", name !== null);
  if (name === null) return;
  pointed.textContent = name;
  for (const one of document.querySelectorAll(`[data-model="${CSS.escape(name)}"]`)) {
    one.classList.add("lit");
    if (one.matches(".curve")) one.parentElement.append(one);
  }
}
const named = (target) => target.closest?.("[data-model]")?.dataset.model ?? null;
document.addEventListener("pointerover", (event) => {
  const name = named(event.target);
  if (name !== null) light(name);
  else if (!document.body.classList.contains("picked")) return;
  else light(kept);
});
document.addEventListener("click", (event) => {
  const name = named(event.target);
  if (name === null && !event.target.closest("svg")) return;
  kept = name === kept ? null : name;
  light(kept);
});

// Which energy classes and which integrator the roll-outs show.
for (const box of document.querySelectorAll("[data-class]")) {
  box.addEventListener("change", () => {
    for (const one of document.querySelectorAll(`[data-group="${box.dataset.class}"]`)) one.classList.toggle("hidden", !box.checked);
  });
}
document.getElementById("integrator")?.addEventListener("change", (event) => {
  for (const one of document.querySelectorAll("[data-integrator]")) {
    one.classList.toggle("hidden", one.dataset.integrator !== event.target.value);
  }
});
