"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const key = cell => (cell.dataset.v === undefined ? null : Number(cell.dataset.v));
  const compare = (a, b, sign) => {
    const x = key(a), y = key(b);
    if (x !== null && y !== null) return sign * (x - y);
    // Cells without a number stay at the end, whichever way is up.
    if (x !== null || y !== null) return x === null ? 1 : -1;
    return sign * a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(a.cells[column], b.cells[column], down ? -1 : 1));
      table.tBodies[0].append(...rows);
    }));
  }

  const large = document.getElementById("large");
  for (const button of document.querySelectorAll("button.zoom")) {
    button.addEventListener("click", () => {
      const image = button.querySelector("img");
      Object.assign(large.querySelector("img"), { src: image.src, alt: image.alt });
      large.showModal();
    });
  }
  large.addEventListener("click", () => large.close());
})();
