(function () {
  "use strict";
  var store = JSON.parse(document.getElementById("figures").textContent);
  var root = document.documentElement;
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  var themes = ["system", "light", "dark"];
  var names = { system: "as the system", light: "light", dark: "dark" };
  var choice = 0;
  var drawn = new Map();
  var pattern = new RegExp(
    Object.keys(store.dark).map(function (key) { return key.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"); }).join("|"), "gi"
  );

  function isDark() {
    return themes[choice] === "dark" || (themes[choice] === "system" && system.matches);
  }
  function colored(value) {
    if (!isDark()) { return value; }
    var text = JSON.stringify(value).replace(pattern, function (key) { return store.dark[key.toLowerCase()]; });
    return JSON.parse(text);
  }
  function draw(node) {
    var figure = store.figures[node.dataset.figure];
    var layout = JSON.parse(JSON.stringify(figure.layout));
    layout.template = store.template;
    layout = colored(layout);
    Plotly.react(node, colored(figure.data), layout, { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false });
    drawn.set(node, isDark());
  }
  function visible(node) { return node.offsetParent !== null; }
  var nodes = Array.prototype.slice.call(document.querySelectorAll(".plot"));
  nodes.forEach(function (node) { node.style.height = store.figures[node.dataset.figure].layout.height + "px"; });

  // One figure a turn, nearest to the reader first, so that the page answers while it draws.
  var waiting = 0;
  function distance(node) {
    var box = node.getBoundingClientRect();
    return box.bottom < 0 ? -box.bottom : Math.max(0, box.top - window.innerHeight);
  }
  function next() {
    waiting = 0;
    var stale = nodes.filter(function (node) { return visible(node) && drawn.get(node) !== isDark(); });
    if (!stale.length) { root.dataset.drawn = "yes"; return; }
    stale.sort(function (a, b) { return distance(a) - distance(b); });
    draw(stale[0]);
    waiting = window.setTimeout(next, 0);
  }
  function redraw() {
    delete root.dataset.drawn;
    if (!waiting) { waiting = window.setTimeout(next, 0); }
  }
  system.addEventListener("change", redraw);
  window.addEventListener("beforeprint", function () {
    nodes.forEach(function (node) { if (visible(node) && drawn.get(node) !== isDark()) { draw(node); } });
  });

  var button = document.getElementById("theme");
  button.addEventListener("click", function () {
    choice = (choice + 1) % themes.length;
    if (themes[choice] === "system") { root.removeAttribute("data-theme"); } else { root.dataset.theme = themes[choice]; }
    button.textContent = "Theme: " + names[themes[choice]];
    redraw();
  });

  function show(device) {
    document.querySelectorAll("[data-device]").forEach(function (node) { node.hidden = node.dataset.device !== device; });
    nodes.forEach(function (node) { if (visible(node) && drawn.has(node)) { Plotly.Plots.resize(node); } });
    redraw();
  }
  document.querySelectorAll("input[name=device]").forEach(function (input) {
    input.addEventListener("change", function () { show(input.value); });
    if (input.checked) { show(input.value); }
  });
}());
