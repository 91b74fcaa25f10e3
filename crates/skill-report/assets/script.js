// Filters rows and conversations by outcome and text; the page is whole without it.
function setUpFilters() {
  for (const tools of document.querySelectorAll("[data-filters]")) {
    const entries = document.querySelectorAll("#" + tools.dataset.filters + " [data-outcome]");
    const outcome = tools.querySelector("select");
    const words = tools.querySelector("input");
    const count = tools.querySelector("output");
    const apply = () => {
      const wanted = words.value.trim().toLowerCase();
      let shown = 0;
      for (const entry of entries) {
        const fits = (!outcome.value || entry.dataset.outcome === outcome.value) &&
          (!wanted || entry.textContent.toLowerCase().includes(wanted));
        entry.hidden = !fits;
        shown += fits;
      }
      count.textContent = shown + " of " + entries.length;
    };
    tools.hidden = false;
    tools.addEventListener("input", apply);
    apply();
  }
}
// Gives each cell the title of its column, which narrow screens show where each row is a card.
function setUpCards() {
  for (const table of document.querySelectorAll(".scroll > table:not(.cards, .matrix)")) {
    const [titles, ...rows] = table.rows;
    if (!titles || titles.querySelector("td")) continue;
    for (const row of rows) {
      [...row.cells].forEach((cell, place) => {
        cell.dataset.title = titles.cells[place] ? titles.cells[place].textContent : "";
      });
    }
    table.createTHead().append(titles);
    table.classList.add("cards");
  }
}
// Sorts a table by the column whose title is clicked, and the other way around at the next click.
function setUpSorting() {
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const titles = table.querySelectorAll("thead th");
    titles.forEach((title, place) => {
      if (title.onclick) return;
      title.tabIndex = 0;
      title.onclick = () => {
        const isDown = title.getAttribute("aria-sort") === "ascending";
        titles.forEach((other) => other.removeAttribute("aria-sort"));
        title.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        const key = (row) => row.cells[place].dataset.key ?? row.cells[place].textContent;
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((first, second) => {
          const [a, b] = [key(first), key(second)];
          // Rows without a value come last in either order.
          if (a === "" || b === "") return (a === "") - (b === "");
          const order = isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
          return isDown ? -order : order;
        });
        body.append(...rows);
      };
      title.onkeydown = (event) => { if (event.key === "Enter") title.onclick(); };
    });
  }
}
// Opens the part of the page that a link leads to, and all parts on paper.
function openPart() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target && target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
}
addEventListener("hashchange", openPart);
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.part")) part.open = true;
});
function setUp() {
  openPart();
  setUpFilters();
  setUpCards();
  setUpSorting();
}
setUp();
document.addEventListener("report", setUp);
