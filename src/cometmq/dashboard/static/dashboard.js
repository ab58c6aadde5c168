/* What htmx and uPlot do not do by themselves: the theme, curves in the page's colours, the tail's pause, a server that is away. */
(function () {
  "use strict";

  const root = document.documentElement;
  let theme = null;
  try { theme = localStorage.getItem("theme"); } catch (error) { /* A browser may keep nothing. */ }
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function isDark() { return (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark"; }

  /* --- curves */

  const curves = new Map();

  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }

  function figure(value) {
    if (value === null || value === undefined) return "–";
    return value.toLocaleString("en-US", { maximumFractionDigits: value < 100 ? 1 : 0 });
  }

  function short(value) {
    return value >= 1e6 ? value / 1e6 + "M" : value >= 1e3 ? value / 1e3 + "k" : String(value);
  }

  function options(place) {
    const strokes = [colour("--accent"), colour("--second")];
    const names = JSON.parse(place.dataset.series);
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    return {
      width: place.clientWidth, height: 200,
      padding: [null, 28, null, null], // The last label of the axis is centred at the edge.
      cursor: { y: false, points: { size: 6 } },
      scales: { y: { range: function (_, low, high) { return [0, Math.max(high, 1) * 1.1]; } } },
      axes: [
        Object.assign({ space: 75, size: 30 }, axis, { values: function (_, times) { const digits = times[times.length - 1] - times[0] < 600 ? 8 : 5; return times.map(function (time) { return new Date(time * 1000).toTimeString().slice(0, digits); }); } }),
        Object.assign({}, axis, { size: 46, values: function (_, values) { return values.map(short); } }),
      ],
      series: [{ label: "At", value: function (_, time) { return time === null ? "–" : new Date(time * 1000).toTimeString().slice(0, 8); } }].concat(
        names.map(function (name, at) {
          return { label: name, stroke: strokes[at], width: 1.75, points: { show: false }, value: function (_, value) { return figure(value); } };
        })),
    };
  }

  function draw(within) {
    if (!window.uPlot) return;
    curves.forEach(function (curve, place) { if (!place.isConnected) { curve.destroy(); curves.delete(place); } });
    within.querySelectorAll(".chart").forEach(function (place) {
      if (curves.has(place)) return;
      curves.set(place, new window.uPlot(options(place), JSON.parse(place.dataset.points), place));
    });
  }

  function redraw() {
    curves.forEach(function (curve) { curve.destroy(); });
    curves.clear();
    draw(document);
  }

  /* --- the tail */

  function trim() {
    const list = document.getElementById("tail");
    if (!list) return;
    while (list.children.length > Number(list.dataset.most || 500)) list.lastElementChild.remove();
    const empty = document.getElementById("tail-empty");
    if (empty) empty.hidden = list.children.length > 0;
  }

  /* --- a server that is away */

  let awaySince = null;

  function away() {
    awaySince = awaySince || new Date();
    const said = document.getElementById("unreachable");
    if (!said) return;
    said.hidden = false;
    said.textContent = "The dashboard has not answered since " + awaySince.toTimeString().slice(0, 8) + "; the page shows the state of that time.";
  }

  function back() {
    awaySince = null;
    const said = document.getElementById("unreachable");
    if (said) said.hidden = true;
  }

  document.addEventListener("DOMContentLoaded", function () {
    draw(document);
    const here = document.querySelector(".side [aria-current]");
    const bar = here && here.closest("nav");
    if (bar && bar.scrollWidth > bar.clientWidth) bar.scrollLeft = here.offsetLeft - bar.clientWidth / 3;
    const button = document.getElementById("theme");
    if (button) button.addEventListener("click", function () {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch (error) { /* Then it is for this page. */ }
      redraw();
    });
    dark.addEventListener("change", redraw);

    document.body.addEventListener("htmx:beforeRequest", function (event) {
      const pause = document.getElementById("pause");
      const isTail = event.detail.elt.hasAttribute("data-tail");
      /* Nobody reads a page that is not on a screen, nor a tail that is paused, nor a curve that is being pointed at. */
      if (document.hidden || (isTail && pause && pause.checked) || (event.detail.elt.querySelector && event.detail.elt.querySelector(".chart:hover"))) event.preventDefault();
    });
    document.body.addEventListener("htmx:afterSettle", function () { draw(document); trim(); });
    document.body.addEventListener("htmx:oobAfterSwap", trim);
    document.body.addEventListener("htmx:sendError", away);
    document.body.addEventListener("htmx:timeout", away);
    document.body.addEventListener("htmx:afterOnLoad", back);

    let asked = null;
    window.addEventListener("resize", function () { clearTimeout(asked); asked = setTimeout(redraw, 150); });
    document.addEventListener("keydown", function (event) {
      const typed = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
      const find = document.querySelector("[data-find]");
      if (event.key === "/" && !typed && find) { event.preventDefault(); find.focus(); find.select(); }
    });
    document.addEventListener("click", function (event) {
      if (event.target.closest("[data-back]") && history.length > 1) { event.preventDefault(); history.back(); }
    });
    document.addEventListener("submit", function (event) {
      /* A second press while the first is under way sends nothing; the server would not do it twice either. */
      const form = event.target;
      if (form.method !== "post") return;
      if (form.dataset.sent) { event.preventDefault(); return; }
      form.dataset.sent = "1";
      setTimeout(function () { delete form.dataset.sent; }, 5000);
    });
  });
})();
