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

const source = new EventSource("/news");
source.addEventListener("open", () => { link.className = "on"; link.textContent = "live"; });
source.addEventListener("error", () => { link.className = "off"; link.textContent = "connecting"; });
source.addEventListener("rows", (event) => { rows.innerHTML = event.data; sayTimes(); });
sayTimes();
setInterval(sayTimes, 30000);
