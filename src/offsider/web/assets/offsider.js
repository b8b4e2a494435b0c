// Everything works without this script. With it pages stay live, questions are asked in place, and there are keys.
"use strict";

document.documentElement.classList.add("js");

const texts = JSON.parse(document.body.dataset.texts);
const said = document.getElementById("said");

/** Tell a screen reader. */
function say(text) {
  said.textContent = text;
}

function element(name, content = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = content;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// ---------------------------------------------------------------------------------- preferences

for (const form of document.querySelectorAll("[data-submit-on-change]")) {
  form.addEventListener("change", () => form.requestSubmit());
}

// ------------------------------------------------------------------------------------ questions

function ask(question, onYes) {
  const dialog = element("dialog", "", { "aria-labelledby": "question" });
  const yes = element("button", texts["Yes, do it"], { type: "button", class: "danger", value: "yes" });
  const no = element("button", texts["No"], { type: "button", value: "no" });
  const buttons = element("div", "", { class: "buttons" });
  buttons.append(no, yes);
  dialog.append(element("p", question, { id: "question" }), buttons);
  no.addEventListener("click", () => dialog.close());
  yes.addEventListener("click", () => {
    dialog.close();
    onYes();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  no.focus();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!question || form.elements.namedItem("confirmed")) return;
  event.preventDefault();
  ask(question, () => {
    form.append(element("input", "", { type: "hidden", name: "confirmed", value: "yes" }));
    form.requestSubmit(event.submitter ?? undefined);
  });
});

// -------------------------------------------------------------------------------------- staying live

const SHORTEST = 1;
const LONGEST = 60;

/** What the browser kept is somebody's text until it proves to be a number of seconds. */
function keptSeconds() {
  const kept = Number(localStorage.getItem("offsider-interval"));
  return Number.isFinite(kept) && kept >= SHORTEST && kept <= LONGEST ? kept : 5;
}

const live = {
  seconds: keptSeconds(),
  on: localStorage.getItem("offsider-live") !== "off",
  timer: 0,
  failures: 0,
  button: document.querySelector("[data-live-button]"),
};

/** When a part was brought up to date that wants it less often: `data-live="60"` is once a minute. */
const refreshed = new Map();

function isDue(part) {
  const since = performance.now() - (refreshed.get(part.id) ?? 0);
  return since >= Number(part.dataset.live) * 1000;
}

function inUse(part) {
  return part.contains(document.activeElement) || part.querySelector("details[open], input:checked, dialog[open]");
}

async function refresh() {
  const parts = [...document.querySelectorAll("[data-live][id]")].filter((part) => isDue(part) && !inUse(part));
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok) throw new Error(String(answer.status));
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    refreshed.set(part.id, performance.now());
    const fresh = page.getElementById(part.id);
    if (!fresh || !part.isConnected || inUse(part) || fresh.outerHTML === part.outerHTML) continue;
    const made = document.importNode(fresh, true);
    part.replaceWith(made);
    document.dispatchEvent(new CustomEvent("offsider:updated", { detail: made }));
  }
  document.dispatchEvent(new CustomEvent("offsider:polled"));
}

function show() {
  live.button.setAttribute("aria-pressed", String(live.on));
  live.button.classList.toggle("troubled", live.failures > 0);
  live.button.textContent = texts[live.on ? "Live" : "Paused"];
}

async function tick() {
  if (live.on && !document.hidden) {
    try {
      await refresh();
      live.failures = 0;
      live.button.classList.remove("beat");
      void live.button.offsetWidth;
      live.button.classList.add("beat");
    } catch {
      if (live.failures === 0) say(texts["The server does not answer"]);
      live.failures += 1;
    }
    show();
  }
  plan();
}

function plan(seconds = live.seconds) {
  clearTimeout(live.timer);
  // A server in trouble is asked ever more rarely.
  const patience = Math.min(2 ** live.failures, 8);
  live.timer = setTimeout(tick, seconds * 1000 * patience);
}

function toggle() {
  live.on = !live.on;
  localStorage.setItem("offsider-live", live.on ? "on" : "off");
  show();
  say(texts[live.on ? "Live" : "Paused"]);
}

if (live.button) {
  live.button.hidden = false;
  live.button.addEventListener("click", toggle);
  show();
  plan(Math.min(live.seconds, 2)); // soon for once: what moves shall be seen to
}

for (const slider of document.querySelectorAll("[data-interval]")) {
  const shown = slider.closest("label").querySelector("output");
  slider.closest("label").hidden = false;
  slider.value = String(live.seconds);
  shown.textContent = texts["{count} s"].replace("{count}", live.seconds);
  slider.addEventListener("input", () => {
    const wanted = Number(slider.value);
    live.seconds = Math.min(LONGEST, Math.max(SHORTEST, Number.isFinite(wanted) ? wanted : 5));
    shown.textContent = texts["{count} s"].replace("{count}", live.seconds);
    localStorage.setItem("offsider-interval", String(live.seconds));
    plan();
  });
}

// ----------------------------------------------------------------------------------------- times

const words = new Intl.RelativeTimeFormat(document.documentElement.lang, { style: "narrow" });
const UNITS = [["day", 86400, 172800], ["hour", 3600, 7200], ["minute", 60, 120], ["second", 1, 0]];

function relative(seconds) {
  const [unit, length] = UNITS.find(([, , from]) => Math.abs(seconds) >= from);
  return words.format(Math.trunc(seconds / length), unit);
}

// Only where nothing else brings them up to date.
setInterval(() => {
  if (live.on && live.button) return;
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isFinite(at)) time.textContent = relative((at - Date.now()) / 1000);
  }
}, 10_000);

// ------------------------------------------------------------------------------------------ keys

const search = document.querySelector("[data-shortcut='/']");
const tabs = [...document.querySelectorAll(".tabs a")];

function help() {
  if (document.querySelector("dialog[open]")) return;
  const dialog = element("dialog", "", { "aria-labelledby": "keys" });
  const list = element("dl", "", { class: "kv" });
  const keys = [["/", search.placeholder], ["l", texts["Live"]], ["?", texts["Keyboard"]], ["Esc", texts["Close"]]];
  tabs.slice(0, 9).forEach((tab, number) => keys.push([String(number + 1), tab.textContent]));
  for (const [key, meaning] of keys) {
    const term = element("dt");
    term.append(element("kbd", key));
    list.append(term, element("dd", meaning));
  }
  const close = element("button", texts["Close"], { type: "button" });
  const buttons = element("div", "", { class: "buttons" });
  buttons.append(close);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.append(element("h2", texts["Keyboard"], { id: "keys" }), list, buttons);
  document.body.append(dialog);
  dialog.showModal();
}

for (const button of document.querySelectorAll("[data-help]")) {
  button.hidden = false;
  button.addEventListener("click", help);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "/") {
    event.preventDefault();
    search.focus();
  } else if (event.key === "?") {
    help();
  } else if (event.key === "l" && live.button) {
    toggle();
  } else if (/^[1-9]$/.test(event.key)) {
    tabs[Number(event.key) - 1]?.click();
  }
});

// A menu closes when one looks elsewhere.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
