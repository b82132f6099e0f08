"use strict";
(() => {
  // The page can be read without this: it filters, sorts and moves, and makes elements only of what the page holds, escaped already.
  const by = (id) => document.getElementById(id);
  const section = by("jobs"), find = by("find"), tag = by("tag"), order = by("order"), none = by("none");
  const jobs = [...section.querySelectorAll(".job")].map((at) => ({
    at,
    text: at.dataset.s,
    v: at.dataset.v,
    r: at.dataset.r,
    f: at.dataset.f.split(" "),
    t: at.dataset.t.split("\n"),
    n: at.dataset.n.split(" ").map(Number),
    name: at.id,
  }));
  let shown = jobs;
  const chosen = { v: new Set(), r: new Set(), f: new Set() };
  const matches = (group, has) => chosen[group].size === 0 || [...chosen[group]].some(has);

  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = tag ? tag.value : "";
    shown = [];
    for (const job of jobs) {
      const fits =
        words.every((word) => job.text.includes(word)) &&
        (wanted === "" || job.t.includes(wanted)) &&
        matches("v", (value) => job.v === value) &&
        matches("r", (value) => job.r === value) &&
        matches("f", (value) => job.f.includes(value));
      job.at.hidden = !fits;
      if (fits) shown.push(job);
    }
    none.hidden = shown.length > 0;
    by("count").textContent = shown.length === jobs.length ? `${jobs.length} jobs` : `${shown.length} of ${jobs.length} jobs`;
  }

  const planned = new Map(jobs.map((job, place) => [job, place]));
  function sort() {
    const key = order.value;
    jobs.sort((a, b) => {
      const first = key === "" ? 0 : key === "name" ? a.name.localeCompare(b.name) : b.n[key] - a.n[key];
      return first || planned.get(a) - planned.get(b);
    });
    for (const job of jobs) section.insertBefore(job.at, none);
    filter();
  }

  function fill(job) {
    const rest = job.querySelector(":scope > noscript");
    if (!rest) return;
    const made = document.createElement("template");
    made.innerHTML = rest.textContent;
    rest.replaceWith(made.content);
  }

  function go(step) {
    if (shown.length === 0) return;
    const here = document.activeElement && document.activeElement.closest(".job");
    const place = shown.findIndex((job) => job.at === here);
    const next = place < 0 ? 0 : Math.min(Math.max(place + step, 0), shown.length - 1);
    const row = shown[next].at.firstElementChild;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
  }

  function back() {
    const here = document.activeElement;
    const job = here && here.closest(".job");
    if (job && job.open) {
      job.open = false;
      job.firstElementChild.focus();
    } else if (here === find && find.value === "") {
      find.blur();
    } else {
      find.value = "";
      if (tag) tag.value = "";
      for (const chip of document.querySelectorAll(".chip")) chip.setAttribute("aria-pressed", "false");
      for (const group of Object.values(chosen)) group.clear();
      filter();
    }
  }

  function jump() {
    const job = location.hash.startsWith("#job-") && by(location.hash.slice(1));
    if (!job) return;
    if (job.hidden) back();
    job.hidden = false;
    fill(job);
    job.open = true;
    job.firstElementChild.focus({ preventScroll: true });
    job.scrollIntoView({ block: "start" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const types = event.target.closest("input, select, textarea");
    if (event.key === "Escape") {
      event.preventDefault();
      back();
    } else if (types) {
      if (event.key === "Enter" && event.target === find) {
        event.preventDefault();
        go(0);
      }
    } else if (event.key === "/") {
      event.preventDefault();
      find.focus();
      find.select();
    } else if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      go(event.key === "j" ? 1 : -1);
    }
  });
  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      const { g, x } = chip.dataset;
      const on = !chosen[g].delete(x);
      if (on) chosen[g].add(x);
      chip.setAttribute("aria-pressed", String(on));
      filter();
    });
  }
  section.addEventListener("toggle", (event) => event.target.open && fill(event.target), true);
  find.addEventListener("input", filter);
  if (tag) tag.addEventListener("change", filter);
  order.addEventListener("change", sort);
  addEventListener("hashchange", jump);
  by("bar").hidden = false;
  filter();
  jump();
})();
