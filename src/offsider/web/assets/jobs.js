// Lists: select several rows; continue searches, counts and bulk actions in place; report newer rows.
"use strict";

(() => {
  const MOST_ROWS = 1000;
  let last = null;

  const boxesOf = (form) => [...form.querySelectorAll("[data-check]")];

  // Disable buttons for selected jobs while none is selected; "all" reflects whether all, some or none are.
  const refresh = (form) => {
    const boxes = boxesOf(form);
    const chosen = boxes.filter((box) => box.checked).length;
    for (const button of form.querySelectorAll("[data-chosen] button")) button.disabled = chosen === 0;
    for (const count of form.querySelectorAll("[data-chosen-count]")) count.textContent = chosen ? String(chosen) : "";
    for (const all of form.querySelectorAll("[data-check-all]")) {
      all.checked = chosen > 0 && chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    }
    for (const box of boxes) box.closest("tr").classList.toggle("chosen", box.checked);
  };

  const chooseRange = (form, from, to, checked) => {
    const boxes = boxesOf(form);
    const ends = [boxes.indexOf(from), boxes.indexOf(to)].sort((a, b) => a - b);
    if (ends[0] < 0) return;
    for (const box of boxes.slice(ends[0], ends[1] + 1)) box.checked = checked;
  };

  document.addEventListener("click", (event) => {
    const form = event.target.closest && event.target.closest("form[data-choose]");
    if (!form) return;
    if (event.target.matches("[data-check-all]")) {
      for (const box of boxesOf(form)) box.checked = event.target.checked;
    } else if (event.target.matches("[data-check]")) {
      if (event.shiftKey && last) chooseRange(form, last, event.target, event.target.checked);
      last = event.target;
    } else {
      return;
    }
    refresh(form);
  });

  const refreshAll = () => document.querySelectorAll("form[data-choose]").forEach(refresh);
  document.addEventListener("offsider:updated", refreshAll);

  const load = async (address) => {
    const response = await fetch(address, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (!response.ok) throw new Error(String(response.status));
    return new DOMParser().parseFromString(await response.text(), "text/html");
  };

  // --- searches ---------------------------------------------------------------------------------

  const known = (table) => new Set([...table.querySelectorAll("tbody tr[data-key]")].map((row) => row.dataset.key));

  const take = (page) => {
    const table = document.getElementById("jobs");
    const found = page.getElementById("jobs");
    if (table && found) {
      const there = known(table);
      for (const row of found.querySelectorAll("tbody tr")) {
        // A job that moves during the search may be found twice.
        if (!there.has(row.dataset.key)) table.tBodies[0].append(document.adoptNode(row));
      }
    }
    const progress = page.querySelector("[data-progress]");
    document.querySelector("[data-progress]").replaceWith(document.adoptNode(progress));
    refreshAll();
  };

  const goOn = async () => {
    let stopped = false;
    for (;;) {
      const link = document.querySelector("[data-go-on]");
      const table = document.getElementById("jobs");
      if (!link || stopped || (table && table.tBodies[0].rows.length >= MOST_ROWS)) return;
      const stop = document.querySelector("[data-stop]");
      stop.hidden = false;
      stop.addEventListener("click", () => { stopped = true; stop.hidden = true; link.hidden = false; });
      link.hidden = true;
      try {
        const page = await load(link.href);
        if (stopped) return;
        take(page);
      } catch {
        link.hidden = false;
        stop.hidden = true;
        return;
      }
    }
  };

  document.addEventListener("click", (event) => {
    if (!event.target.closest || !event.target.closest("[data-go-on]")) return;
    event.preventDefault();
    goOn();
  });

  // A search is not repeated, so its rows are compared with those of a new one.
  document.addEventListener("offsider:polled", ({ detail: page }) => {
    const asOf = document.querySelector("[data-as-of]");
    const [table, found] = [document, page].map((each) => each.getElementById("jobs"));
    if (!asOf || !table || !found) return;
    const isWhole = !page.querySelector("[data-go-on]");
    const rows = new Map([...found.querySelectorAll("tbody tr[data-key]")].map((row) => [keyOf(row), row]));
    for (const row of table.querySelectorAll("tbody tr[data-key]")) {
      const same = rows.get(keyOf(row));
      rows.delete(keyOf(row));
      if (same) morph(row, same);
      row.classList.toggle("gone", !same && isWhole);
    }
    asOf.replaceWith(document.adoptNode(page.querySelector("[data-as-of]")));
    const newer = document.querySelector("[data-newer]");
    newer.hidden = rows.size === 0 || Boolean(!isWhole && document.querySelector("[data-go-on]"));
    newer.textContent = texts["jobs.newer"].replace("{number}", rows.size);
    refreshAll();
  });

  // --- counts -----------------------------------------------------------------------------------

  // Each step replaces the block; a step that fails leaves its link.
  const count = async (block) => {
    for (let link = block.querySelector("[data-step]"); link; link = block.querySelector("[data-step]")) {
      const fresh = document.adoptNode((await load(link.href)).getElementById("count"));
      block.replaceWith(fresh);
      block = fresh;
    }
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("[data-step]");
    if (!link) return;
    event.preventDefault();
    count(link.closest("#count"));
  });

  // --- bulk actions -----------------------------------------------------------------------------

  // Continue a running bulk action automatically; without this script its button does.
  document.querySelector("[data-continue] button")?.click();

  refreshAll();
  goOn();
  const counting = document.querySelector("#count[data-steps]");
  if (counting) count(counting);
})();
