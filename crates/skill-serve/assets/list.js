// Follows the runs of the list. What comes is made by the server, with every text escaped.
const rows = document.getElementById("rows");
const link = document.getElementById("link");

function ago(milliseconds) {
  const seconds = Math.max(0, (Date.now() - milliseconds) / 1000);
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= length) {
      const count = Math.floor(seconds / length);
      return count + " " + unit + (count > 1 ? "s" : "") + " ago";
    }
  }
  return "now";
}

function sayTimes() {
  for (const time of rows.querySelectorAll("time[data-ms]")) {
    time.title = new Date(Number(time.dataset.ms)).toLocaleString();
    time.textContent = ago(Number(time.dataset.ms));
  }
}

const tools = document.getElementById("tools");
const filter = document.getElementById("filter");
const shown = document.getElementById("shown");

function applyFilter() {
  const runs = rows.querySelectorAll("tbody tr");
  const words = filter.value.toLowerCase().split(/\s+/).filter((word) => word);
  let count = 0;
  for (const run of runs) {
    const text = run.textContent.toLowerCase();
    const is_shown = words.every((word) => text.includes(word));
    run.classList.toggle("hidden", !is_shown);
    count += is_shown ? 1 : 0;
  }
  tools.hidden = runs.length < 2;
  shown.textContent = words.length ? count + " of " + runs.length : "";
}
filter.addEventListener("input", applyFilter);

const compare = document.getElementById("compare");
const chosen = document.getElementById("chosen");

function boxes() {
  return [...rows.querySelectorAll("input[name=run]")];
}

// Two runs or more are compared.
function applyChoice() {
  const names = boxes().filter((box) => box.checked).map((box) => box.value);
  compare.hidden = boxes().length < 2;
  compare.querySelector("button").disabled = names.length < 2;
  chosen.textContent = names.length > 4 ? names.length + " runs" : names.length ? names.join(" and ") : "Choose two or more runs below.";
}
rows.addEventListener("change", applyChoice);

// The rows are replaced whenever a run has changed; what was chosen stays.
function replaceRows(html) {
  const names = new Set(boxes().filter((box) => box.checked).map((box) => box.value));
  rows.innerHTML = html;
  for (const box of boxes()) box.checked = names.has(box.value);
  applyChoice();
}

const source = new EventSource("/news");
source.addEventListener("open", () => { link.className = "on"; link.textContent = "live"; });
source.addEventListener("error", () => { link.className = "off"; link.textContent = "connecting"; });
source.addEventListener("rows", (event) => { replaceRows(event.data); sayTimes(); applyFilter(); });
sayTimes();
applyFilter();
applyChoice();
setInterval(sayTimes, 30000);
