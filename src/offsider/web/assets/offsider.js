// Everything works without this script. It adds live updates, confirmation dialogs and keyboard shortcuts.
"use strict";

document.documentElement.classList.add("js");

const texts = JSON.parse(document.body.dataset.texts);
const said = document.getElementById("said");

/** Announce a text to screen readers. */
function say(text) {
  said.textContent = text;
}

function element(name, content = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = content;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// ------------------------------------------------------------------------------- confirmations

function ask(question, onYes) {
  const dialog = element("dialog", "", { "aria-labelledby": "question" });
  const yes = element("button", texts["common.confirm"], { type: "button", class: "danger", value: "yes" });
  const no = element("button", texts["common.cancel"], { type: "button", value: "no" });
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
  const chosen = form.querySelectorAll("[data-check]:checked").length;
  const question = (event.submitter?.dataset.confirm ?? form.dataset.confirm)?.replace("{number}", chosen);
  if (!question || form.elements.namedItem("confirmed")) return;
  event.preventDefault();
  ask(question, () => {
    form.append(element("input", "", { type: "hidden", name: "confirmed", value: "yes" }));
    form.requestSubmit(event.submitter ?? undefined);
  });
});

// -------------------------------------------------------------------------------------- live updates

const SECONDS = 5;
/** Values are stale after this time without a response. */
const PATIENCE_MS = 3_000;
const GIVE_UP_MS = 30_000;

const live = {
  on: localStorage.getItem("offsider-live") !== "off",
  timer: 0,
  failures: 0,
  /** Time of the request for the current values. */
  since: performance.timeOrigin,
  button: document.querySelector("[data-live-button]"),
};

/** Last update of parts with their own interval: `data-live="60"` is once a minute. */
const refreshed = new Map();

function isDue(part) {
  const since = performance.now() - (refreshed.get(part.id) ?? 0);
  return since >= Number(part.dataset.live) * 1000;
}

/** The identity of a row. In the key of a job, the part before the bar may change while the job stays the same. */
function keyOf(node) {
  return node.dataset?.key?.replace(/^[^|]*\|/, "");
}

function morphAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

/** Keep rows under the pointer: removed rows are struck out, and new ones wait until the pointer has left. */
function morphStill(old, fresh) {
  const rows = new Map([...fresh.children].map((row) => [keyOf(row), row]));
  for (const row of old.children) {
    const same = rows.get(keyOf(row));
    if (same) morph(row, same);
    row.classList.toggle("gone", !same);
    for (const box of row.querySelectorAll("input, button")) box.disabled = !same;
    if (!same) for (const box of row.querySelectorAll(":checked")) box.checked = false;
  }
}

function morphChildren(old, fresh) {
  const wanted = new Set([...fresh.children].map(keyOf));
  const known = new Map();
  for (const child of [...old.children]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (wanted.has(key)) known.set(key, child);
    else child.remove();
  }
  let at = old.firstChild;
  for (const made of [...fresh.childNodes]) {
    const key = keyOf(made);
    const same = key === undefined ? at : known.get(key);
    // A moved row would lose its focus, so elements without a key move instead.
    while (key !== undefined && same && at !== same && at && keyOf(at) === undefined) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
    if (!same || keyOf(same) !== key || same.nodeName !== made.nodeName) {
      old.insertBefore(document.importNode(made, true), at);
    } else {
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      morph(same, made);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Update a part from a new one; keep its selection, focus, open and scroll state. */
function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  morphAttributes(old, fresh);
  if (old.matches("tbody:hover") && [...old.children].some(keyOf)) morphStill(old, fresh);
  else morphChildren(old, fresh);
}

async function refresh() {
  const parts = [...document.querySelectorAll("[data-live][id]")].filter(isDue);
  const signal = AbortSignal.timeout(GIVE_UP_MS);
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin", signal });
  if (!answer.ok) throw new Error(String(answer.status));
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    const fresh = page.getElementById(part.id);
    if (!fresh) throw new Error(`no ${part.id}`);
    refreshed.set(part.id, performance.now());
    if (!part.isConnected || fresh.outerHTML === part.outerHTML) continue;
    morph(part, fresh);
    document.dispatchEvent(new CustomEvent("offsider:updated", { detail: part }));
  }
  document.dispatchEvent(new CustomEvent("offsider:polled", { detail: page }));
}

function show() {
  const word = live.failures ? "layout.not_live" : "layout.live";
  live.button.setAttribute("aria-pressed", String(live.on));
  live.button.classList.toggle("troubled", live.failures > 0);
  live.button.textContent = texts[live.on ? word : "layout.paused"];
}

/** Mark the values as stale if the last response is too old. */
function trouble() {
  live.failures += 1;
  show();
  if (live.failures > 1) return;
  const time = new Intl.DateTimeFormat(document.documentElement.lang, { timeStyle: "medium", hourCycle: "h23" });
  const told = texts["layout.not_live_since"].replace("{time}", time.format(live.since));
  const banner = document.querySelector("[data-not-live]");
  banner.textContent = `${told} · ${texts["common.server_down"]}`;
  banner.hidden = false;
  document.documentElement.classList.add("old");
  say(banner.textContent);
}

function recovered(asked) {
  live.since = asked;
  if (live.failures) say(texts["layout.live"]);
  live.failures = 0;
  document.documentElement.classList.remove("old");
  document.querySelector("[data-not-live]").hidden = true;
  show();
  live.button.classList.remove("beat");
  void live.button.offsetWidth;
  live.button.classList.add("beat");
}

async function tick() {
  if (live.on && !document.hidden) {
    const asked = Date.now();
    const late = setTimeout(trouble, PATIENCE_MS);
    try {
      await refresh();
      recovered(asked);
    } catch {
      trouble();
    } finally {
      clearTimeout(late);
    }
  }
  plan();
}

function plan(seconds = SECONDS) {
  clearTimeout(live.timer);
  // Slow down while the server fails, but often enough to notice when it recovers.
  const patience = Math.min(2 ** live.failures, Math.max(1, 10 / seconds));
  live.timer = setTimeout(tick, seconds * 1000 * patience);
}

function toggle() {
  live.on = !live.on;
  localStorage.setItem("offsider-live", live.on ? "on" : "off");
  show();
  say(texts[live.on ? "layout.live" : "layout.paused"]);
}

if (live.button) {
  live.button.hidden = false;
  live.button.addEventListener("click", toggle);
  show();
  plan(2); // the first update is early, to show that the page is live
  // A hidden tab does not update; its values are stale when it is shown again.
  document.addEventListener("visibilitychange", () => document.hidden || plan(0.01));
}

// ----------------------------------------------------------------------------------------- times

const words = new Intl.RelativeTimeFormat(document.documentElement.lang, { style: "narrow" });
const UNITS = [["day", 86400, 172800], ["hour", 3600, 7200], ["minute", 60, 120], ["second", 1, 0]];

function relative(seconds) {
  const [unit, length] = UNITS.find(([, , from]) => Math.abs(seconds) >= from);
  return words.format(Math.trunc(seconds / length), unit);
}

// Only for times that live updates do not refresh.
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
// On a narrow screen the tabs scroll: the current one is in view.
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });

function initial(tab) {
  return tab.textContent.trim()[0].toLowerCase();
}

/** Focus the first link of the next or previous row or finding. */
function moveTo(step) {
  const links = [...document.querySelectorAll("main tbody tr, main .finding")].map((row) => row.querySelector("a[href]")).filter(Boolean);
  const at = links.findIndex((link) => link.closest("tr, .finding").contains(document.activeElement));
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  next?.focus();
  next?.closest("tr, .finding").scrollIntoView({ block: "nearest" });
}

/** Time at which `g` was pressed. */
let went = -Infinity;

function help() {
  if (document.querySelector("dialog[open]")) return;
  const dialog = element("dialog", "", { "aria-labelledby": "keys" });
  const list = element("dl", "", { class: "kv" });
  const keys = [["/", search.placeholder], ["j k", texts["layout.rows"]], ["l", texts["layout.live"]], ["?", texts["layout.keyboard"]], ["Esc", texts["common.close"]]];
  for (const tab of tabs) keys.push([`g ${initial(tab)}`, tab.textContent]);
  for (const [key, meaning] of keys) {
    const term = element("dt");
    term.append(element("kbd", key));
    list.append(term, element("dd", meaning));
  }
  const close = element("button", texts["common.close"], { type: "button" });
  const buttons = element("div", "", { class: "buttons" });
  buttons.append(close);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.append(element("h2", texts["layout.keyboard"], { id: "keys" }), list, buttons);
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
  } else if (performance.now() - went < 1500) {
    went = -Infinity;
    tabs.find((tab) => initial(tab) === event.key)?.click();
  } else if (event.key === "l" && live.button) {
    toggle();
  } else if (event.key === "g") {
    went = performance.now();
  } else if (event.key === "j" || event.key === "k") {
    moveTo(event.key === "j" ? 1 : -1);
  }
});

// ---------------------------------------------------------------------------------------- copying

/** Without TLS browsers block the clipboard API; copying a selection still works. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = element("textarea", text, { class: "unseen" });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await copy(button.dataset.copy);
  button.focus();
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
  say(texts["common.copied"]);
});

// Close a menu when it loses focus.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
