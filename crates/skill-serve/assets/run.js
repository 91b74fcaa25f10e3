// Follows a run: where it is, what it spends, its latest rollouts, its log, and its report when that has changed.
// What a model or a data set says is put into the page as text alone.
const MAX_ROLLOUTS = 20;
const MAX_LINES = 300;

const byId = (id) => document.getElementById(id);
const run = byId("live").dataset.run;
let now = null;
// Between the server's clock and this one.
let behind = 0;
let shownReport = null;
let isFetching = false;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

const grouped = (number) => Math.round(number).toLocaleString("en-US");
const percent = (score) => (score * 100).toFixed(1) + " %";

function duration(seconds) {
  if (seconds < 90) return Math.round(seconds) + " s";
  if (seconds < 5400) return Math.round(seconds / 60) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}

function showState() {
  const state = byId("state");
  state.textContent = now.state;
  state.className = now.state;
  byId("steps").max = now.total_steps || Math.max(1, now.n_steps);
  byId("steps").value = now.n_steps;
  const unit = " " + now.unit + "s";
  const of = now.total_steps ? now.n_steps + " of " + now.total_steps + unit : now.n_steps + unit;
  byId("where").textContent = now.problem || (now.epoch && now.unit === "step" ? of + ", epoch " + now.epoch : of);
  byId("stop").hidden = now.state !== "training" || now.is_stop_requested;
  byId("continue").hidden = now.state !== "training" || !now.is_stop_requested;
}

function showStage() {
  const stage = now.stage;
  byId("stage-tile").hidden = !stage;
  if (!stage) return;
  const round = now.progress && now.progress.round !== undefined ? "round " + now.progress.round + " " : "";
  const place = now.bank ? round : now.step ? now.unit + " " + now.step + " " : "";
  byId("stage").textContent = place + stage.name.replaceAll("_", " ");
  byId("done").max = Math.max(1, stage.total);
  byId("done").value = stage.done;
  const seconds = Math.max(0, (Date.now() - behind - stage.began_unix_ms) / 1000);
  let words = stage.done + " of " + stage.total + ", " + duration(seconds);
  if (stage.done > 1 && stage.done < stage.total && seconds > 2) {
    words += ", about " + duration(seconds * (stage.total - stage.done) / stage.done) + " left";
  }
  if (now.in_flight) words += ", " + now.in_flight + " in flight";
  if (now.waiting) words += ", " + now.waiting + " waiting";
  if (now.trouble) words += "; " + (now.retrying ? now.retrying + " tried again: " : "") + now.trouble;
  byId("done-words").textContent = words;
}

// A difference of success rates with its 95 % interval.
function difference(numbers) {
  const points = (share) => (share < 0 ? "−" : "+") + Math.abs(Math.round(share * 100));
  return points(numbers.difference) + " points (" + numbers.interval.map(points).join(" to ") + ")";
}

const eValue = (e) => (e >= 1e4 ? "above 10,000" : e >= 10 ? e.toFixed(0) : e.toFixed(2));

// The e-value or p-value of a trial, and the one that admits.
function evidence(rule, numbers) {
  if (rule.any_time) return "e " + eValue(numbers.e_better) + ", admits at " + eValue(rule.any_time.threshold);
  const p = "p " + numbers.p_better.toFixed(3);
  return rule.fixed_end ? p + ", admits at " + rule.fixed_end.alpha.toFixed(3) : p;
}

function showTrial() {
  const trial = now.progress && now.progress.trial;
  byId("trial-tile").hidden = !trial;
  if (!trial) return;
  const what = trial.is_retirement ? "retirement of " : "";
  byId("trial").textContent = trial.trial + ": " + what + trial.skill;
  byId("rollouts-done").max = Math.max(1, trial.max_rollouts);
  byId("rollouts-done").value = trial.rollouts;
  let words = trial.title + " (" + trial.tier + ", " + trial.n_items + " tasks); ";
  words += grouped(trial.rollouts) + " of " + grouped(trial.max_rollouts) + " rollouts; ";
  if (trial.numbers) {
    const known = difference(trial.numbers) + ", " + evidence(trial.rule, trial.numbers);
    words += trial.is_fresh ? "admitted with " + known + ", now measured once more" : known;
  } else {
    words += "no result yet";
  }
  byId("trial-words").textContent = words;
}

// What the run has come to, in the words of the server.
function showFacts() {
  // The report below begins with the verdict.
  const facts = now.facts.filter((fact) => fact.name !== "verdict");
  byId("facts-tile").hidden = facts.length === 0;
  byId("trials").hidden = !now.bank;
  byId("kind").textContent = now.kind || "Results";
  const table = byId("facts");
  table.replaceChildren();
  for (const fact of facts) {
    const row = table.insertRow();
    row.insertCell().textContent = fact.name;
    row.insertCell().textContent = fact.words;
  }
}

const VERDICTS = { admit: "admitted", reject: "rejected", undecided: "undecided" };

function showTrials() {
  const trials = (now.progress && now.progress.trials) || [];
  const table = document.querySelector("#trials .entries");
  table.replaceChildren();
  document.querySelector("#trials .empty").hidden = trials.length > 0;
  for (const trial of trials) {
    const row = table.insertRow();
    const decision = trial.decision;
    const verdict = decision ? VERDICTS[decision.verdict] || decision.verdict : "undecided";
    const known = decision
      ? difference(decision.numbers) + ", e " + eValue(decision.numbers.e_better) + ", p " + decision.numbers.p_better.toFixed(3)
      : trial.problem;
    const what = (trial.is_retirement ? "retirement of " : "") + trial.skill;
    const cells = [trial.trial, what, trial.title, trial.tier, verdict, known, grouped(trial.rollouts) + " rollouts"];
    for (const cell of cells) row.insertCell().textContent = cell;
    if (verdict === "admitted") row.className = "good";
  }
}

// The workers on other machines: what each does, and when it was heard of.
function showWorkers() {
  const workers = now.workers || [];
  byId("workers-tile").hidden = workers.length === 0;
  const table = byId("workers");
  table.replaceChildren();
  for (const worker of workers) {
    const row = table.insertRow();
    row.insertCell().textContent = worker.name;
    const cell = row.insertCell();
    if (worker.problem) {
      cell.textContent = "cannot work: " + worker.problem;
    } else {
      cell.textContent = worker.doing.length + " of " + worker.slots + " slots busy, heard of " + worker.seen_seconds_ago + " s ago";
      cell.title = worker.doing.join(", ");
    }
  }
}

function showSpent() {
  const spent = now.spent;
  byId("spent-tile").hidden = !spent;
  if (!spent) return;
  const caps = spent.caps || {};
  const rows = [
    ["requests", spent.requests, caps.calls, grouped],
    ["tokens", spent.tokens, caps.tokens, grouped],
    ["money", spent.money, caps.money, (money) => "$" + money.toFixed(money && money < 1 ? 4 : 2)],
    ["time", spent.seconds, caps.time_s, duration],
  ];
  const table = byId("spent");
  table.replaceChildren();
  for (const [what, value, cap, words] of rows) {
    if (value === null || value === undefined) continue;
    const row = table.insertRow();
    row.insertCell().textContent = what;
    const cell = row.insertCell();
    cell.className = "number";
    cell.textContent = cap === undefined || cap === null ? words(value) : words(value) + " of " + words(cap);
    if (cap !== undefined && cap !== null) {
      const bar = element("progress");
      bar.max = cap || 1;
      bar.value = value;
      if (value >= 0.9 * cap) bar.className = "full";
      const below = table.insertRow().insertCell();
      below.colSpan = 2;
      below.append(bar);
    }
  }
}

function add(list, entries, max) {
  for (const entry of entries) list.prepend(entry);
  while (list.childElementCount > max) list.lastElementChild.remove();
  list.parentElement.querySelector(".empty").hidden = list.childElementCount > 0;
}

// Where a rollout was made, without its item, which is named already.
function placeWords(shown) {
  const parts = shown.place.split(" / ").filter((part) => part !== shown.item);
  return parts.map((part) => (part === "rollout" ? "training" : part.replaceAll("_", " "))).join(", ");
}

function rollout(shown) {
  const details = element("details");
  const summary = element("summary");
  const outcome = shown.hard >= 1e-9 ? ["solved", "tag good"] : ["failed", "tag bad"];
  summary.append(element("b", shown.item), " ", element("span", outcome[0], outcome[1]), " ");
  summary.append(element("span", placeWords(shown), "faint"));
  if (shown.hard < 1e-9 && shown.reason) summary.append(" ", shown.reason);
  details.append(summary);
  // A conversation is put together when somebody opens it.
  details.addEventListener("toggle", () => {
    if (shown.n_left_out) details.append(element("p", shown.n_left_out + " earlier turns are left out.", "faint"));
    for (const turn of shown.turns) {
      const box = element("div", undefined, "turn");
      box.append(element("b", turn.role), element("pre", turn.text));
      details.append(box);
    }
    details.append(element("p", "answer: " + shown.answer));
    const soft = shown.soft === shown.hard ? "" : ", soft " + percent(shown.soft);
    details.append(element("p", percent(shown.hard) + soft, "faint"));
    noteButton(details, shown);
  }, { once: true });
  return details;
}

// A note is about a training task: what a candidate is judged by is not told to the optimizer.
function noteButton(details, shown) {
  const notes = byId("notes");
  if (!notes || !/^step \d+ \/ rollout/.test(shown.place)) return;
  const button = element("button", "Note on this task");
  button.type = "button";
  button.addEventListener("click", () => {
    notes.open = true;
    notes.querySelector("[name=kind]").value = "note";
    notes.querySelector("[name=item]").value = shown.item;
    notes.querySelector("[name=text]").focus();
  });
  details.append(button);
}

function logLine(line) {
  const item = element("li", undefined, line.tone);
  const time = element("time", new Date(line.unix_ms).toLocaleTimeString());
  time.title = new Date(line.unix_ms).toLocaleString();
  item.append(time, line.text);
  return item;
}

// What a person has opened and chosen in the report stays when a new one takes its place.
function keyOf(details) {
  return details.id || details.querySelector("summary").textContent;
}

function replaceReport(html) {
  const report = byId("report");
  const open = new Set(Array.from(report.querySelectorAll("details[open]"), keyOf));
  const chosen = Array.from(report.querySelectorAll("[data-filters]"), (tools) => [
    tools.dataset.filters,
    Array.from(tools.querySelectorAll("select, input"), (field) => field.value),
  ]);
  const scrolled = window.scrollY;
  report.innerHTML = html;
  for (const details of report.querySelectorAll("details")) details.open = open.has(keyOf(details));
  for (const [id, values] of chosen) {
    const tools = Array.from(report.querySelectorAll("[data-filters]")).find((each) => each.dataset.filters === id);
    const fields = tools ? tools.querySelectorAll("select, input") : [];
    fields.forEach((field, place) => { if (values[place] !== undefined) field.value = values[place]; });
  }
  document.dispatchEvent(new Event("report"));
  window.scrollTo(window.scrollX, scrolled);
}

async function followReport() {
  if (!now || !now.report || isFetching || document.readyState === "loading") return;
  if (shownReport === null) shownReport = byId("version") ? byId("version").dataset.version : "";
  if (now.report === shownReport) return;
  isFetching = true;
  const wanted = now.report;
  try {
    const answer = await fetch("/report/" + run);
    if (answer.ok) {
      replaceReport(await answer.text());
      shownReport = wanted;
    }
  } catch {
    // The server is gone for now; when it is back, the news say what has changed.
  }
  isFetching = false;
  if (now.report !== wanted) followReport();
}

const source = new EventSource("/news/" + run);
source.addEventListener("open", () => {
  byId("link").className = "on";
  byId("link").textContent = "live";
  // Everything is told again from the beginning.
  document.querySelector("#log .entries").replaceChildren();
  document.querySelector("#rollouts .entries").replaceChildren();
});
source.addEventListener("error", () => {
  byId("link").className = "off";
  byId("link").textContent = "connecting";
});
source.addEventListener("now", (event) => {
  now = JSON.parse(event.data);
  behind = Date.now() - now.unix_ms;
  showState();
  showStage();
  showTrial();
  showFacts();
  showTrials();
  showWorkers();
  showSpent();
  followReport();
});
source.addEventListener("log", (event) => {
  add(document.querySelector("#log .entries"), JSON.parse(event.data).map(logLine), MAX_LINES);
});
source.addEventListener("rollouts", (event) => {
  add(document.querySelector("#rollouts .entries"), JSON.parse(event.data).map(rollout), MAX_ROLLOUTS);
});
document.addEventListener("DOMContentLoaded", followReport);
setInterval(() => { if (now) showStage(); }, 1000);
