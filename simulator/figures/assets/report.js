(function () {
  "use strict";
  var store = JSON.parse(document.getElementById("figures").textContent);
  var root = document.documentElement;
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  var themes = ["system", "light", "dark"];
  var names = { system: "system", light: "light", dark: "dark" };
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
  function stale(node) { return visible(node) && drawn.get(node) !== isDark(); }
  var nodes = Array.prototype.slice.call(document.querySelectorAll(".plot"));

  // plotly.js is data until a figure needs it: the text of the page stands before it is read.
  function loaded() {
    if (window.Plotly) { return; }
    var source = document.getElementById("plotly");
    var script = document.createElement("script");
    script.textContent = source.textContent;
    document.head.append(script);
    source.remove();
  }

  // Only figures at most a screen away are drawn, one a turn and nearest first; the others keep their place.
  var waiting = 0;
  function distance(node) {
    var box = node.getBoundingClientRect();
    return box.bottom < 0 ? -box.bottom : Math.max(0, box.top - window.innerHeight);
  }
  function next() {
    waiting = 0;
    var some = nodes.filter(function (node) { return stale(node) && distance(node) <= window.innerHeight; });
    if (!some.length) { root.dataset.drawn = "yes"; return; }
    loaded();
    draw(some.reduce(function (a, b) { return distance(b) < distance(a) ? b : a; }));
    waiting = window.setTimeout(next, 0);
  }
  function redraw() {
    delete root.dataset.drawn;
    if (!waiting) { waiting = window.setTimeout(next, 0); }
  }
  window.addEventListener("scroll", redraw, { passive: true });
  window.addEventListener("resize", redraw);
  document.addEventListener("toggle", redraw, true);
  system.addEventListener("change", redraw);
  window.addEventListener("beforeprint", function () {
    loaded();
    nodes.filter(stale).forEach(draw);
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
