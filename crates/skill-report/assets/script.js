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
setUpFilters();
document.addEventListener("report", setUpFilters);
