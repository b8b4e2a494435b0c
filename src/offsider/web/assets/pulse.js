// The graph of what happens now: differences of the counters between two looks, kept while the tab is open.
"use strict";

{
  const MOST = 60;
  const WIDTH = 600;
  const HEIGHT = 72;
  const KEPT = `offsider-pulse ${document.querySelector("[data-pulse]")?.dataset.pulse ?? ""}`;
  let points = kept();

  function kept() {
    try {
      const found = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
      const isPoint = (point) => Array.isArray(point) && point.length === 3 && point.every(Number.isFinite);
      return Array.isArray(found) ? found.filter(isPoint).slice(-MOST) : [];
    } catch {
      return [];
    }
  }

  function rates() {
    const found = [];
    for (let index = 1; index < points.length; index += 1) {
      const [then, processed, failed] = points[index - 1];
      const [now, processedNow, failedNow] = points[index];
      const seconds = (now - then) / 1000;
      // A counter that was reset begins anew.
      if (seconds > 0) found.push([Math.max(0, processedNow - processed) / seconds, Math.max(0, failedNow - failed) / seconds]);
    }
    return found;
  }

  function line(values, highest, name) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    const step = WIDTH / (MOST - 2);
    const first = WIDTH - (values.length - 1) * step;
    const at = (value, index) => `${(first + index * step).toFixed(1)},${(HEIGHT - 2 - (value / highest) * (HEIGHT - 6)).toFixed(1)}`;
    made.setAttribute("points", values.map(at).join(" "));
    made.setAttribute("class", name);
    return made;
  }

  function draw() {
    const pulse = document.querySelector("[data-pulse]");
    const all = rates();
    if (!pulse || all.length === 0) return;
    const format = new Intl.NumberFormat(document.documentElement.lang, { maximumFractionDigits: 1 });
    const [processed, failed] = all.at(-1);
    pulse.querySelector("[data-rate=processed]").textContent = format.format(processed);
    pulse.querySelector("[data-rate=failed]").textContent = format.format(failed);
    const highest = Math.max(1, ...all.map(([rate]) => rate));
    const names = ["processed", "failed"];
    pulse.querySelector("svg").replaceChildren(...names.map((name, index) => line(all.map((rate) => rate[index]), highest, name)));
  }

  function look() {
    const source = document.querySelector("[data-counters]");
    if (!source) return;
    const [processed, failed] = source.dataset.counters.split(" ").map(Number);
    if (!Number.isFinite(processed) || !Number.isFinite(failed)) return;
    points = [...points, [Date.now(), processed, failed]].slice(-MOST);
    sessionStorage.setItem(KEPT, JSON.stringify(points));
    draw();
  }

  if (document.querySelector("[data-pulse]")) {
    document.querySelector("[data-pulse]").hidden = false;
    look();
    document.addEventListener("offsider:polled", look);
  }
}
