// The graph of jobs per second: one point per update, kept while the tab is open.
"use strict";

{
  const MOST = 60;
  const WIDTH = 600;
  const HEIGHT = 72;
  const KEPT = `offsider-rates ${document.querySelector("[data-pulse]")?.dataset.pulse ?? ""}`;
  let points = kept();

  function kept() {
    try {
      const found = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
      const isPoint = (point) => Array.isArray(point) && point.length === 2 && point.every(Number.isFinite);
      return Array.isArray(found) ? found.filter(isPoint).slice(-MOST) : [];
    } catch {
      return [];
    }
  }

  function line(values, highest, name) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    const step = WIDTH / (MOST - 1);
    const first = WIDTH - (values.length - 1) * step;
    const at = (value, index) => `${(first + index * step).toFixed(1)},${(HEIGHT - 2 - (value / highest) * (HEIGHT - 6)).toFixed(1)}`;
    made.setAttribute("points", values.map(at).join(" "));
    made.setAttribute("class", name);
    return made;
  }

  function draw() {
    const pulse = document.querySelector("[data-pulse]");
    if (!pulse || points.length === 0) return;
    const highest = Math.max(1, ...points.map(([processed]) => processed));
    const names = ["processed", "failed"];
    pulse.querySelector("svg").replaceChildren(...names.map((name, index) => line(points.map((point) => point[index]), highest, name)));
  }

  function look() {
    const source = document.querySelector("[data-rates]");
    if (!source) return;
    const point = source.dataset.rates.split(" ").map(Number);
    if (point.length !== 2 || !point.every(Number.isFinite)) return;
    points = [...points, point].slice(-MOST);
    sessionStorage.setItem(KEPT, JSON.stringify(points));
    draw();
  }

  if (document.querySelector("[data-pulse]")) {
    document.querySelector("[data-pulse]").hidden = false;
    look();
    document.addEventListener("offsider:polled", look);
  }
}
