// Points and lines in a plane as SVG, in the colours of the notebook around it. A plan's number is chosen by a click or the keyboard; its rank goes back as `selected`.
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#2f7387", "#c8852b", "#6e7fc4", "#6f9a48", "#c05d68", "#8b6db4", "#7b8794"];
const [W, H, LEFT, RIGHT, TOP, BOTTOM] = [720, 400, 64, 16, 16, 48];

const make = (tag, values, parent, text) => {
  const found = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(values)) found.setAttribute(name, value);
  if (text !== undefined) found.textContent = text;
  if (parent) parent.appendChild(found);
  return found;
};
const compact = new Intl.NumberFormat("en", { notation: "compact" });
const short = value => value >= 100000 ? compact.format(value) : value >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));

function scale(values, isLog, from, to) {
  const known = values.filter(value => Number.isFinite(value) && (!isLog || value > 0));
  let low = Math.min(...known), high = Math.max(...known);
  if (!known.length) { low = 1; high = 10; }
  if (!isLog) low = Math.min(low, 0);
  if (low === high) high = low + 1;
  const turn = isLog ? Math.log10 : value => value;
  const [a, b] = [turn(low), turn(high)];
  const at = value => from + (to - from) * (turn(value) - a) / (b - a);
  const ticks = [];
  if (isLog) for (let power = Math.floor(a); power <= Math.ceil(b); power++) for (const step of (b - a > 2 ? [1] : [1, 2, 5])) ticks.push(step * 10 ** power);
  else { const step = 10 ** Math.floor(Math.log10((high - low) / 4)); const wide = [1, 2, 5, 10].find(by => (high - low) / (by * step) <= 6) * step; for (let value = Math.ceil(low / wide) * wide; value <= high; value += wide) ticks.push(value); }
  return { at, ticks: ticks.filter(value => value >= low * 0.9999 && value <= high * 1.0001) };
}

function draw(model, el) {
  const [series, axes] = [model.get("series"), model.get("axes")];
  const money = value => model.get("sign") + short(value);
  const every = series.flatMap(one => one.points);
  const x = scale(every.map(point => point[0]), axes[0]?.log, LEFT, W - RIGHT), y = scale(every.map(point => point[1]), axes[1]?.log, H - BOTTOM, TOP);
  const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": model.get("title"), style: "width:100%;max-width:60rem;height:auto;color:inherit;font:12px system-ui,sans-serif" });
  for (const value of x.ticks) { make("line", { x1: x.at(value), x2: x.at(value), y1: TOP, y2: H - BOTTOM, stroke: "currentColor", opacity: .12 }, svg); make("text", { x: x.at(value), y: H - BOTTOM + 16, "text-anchor": "middle", fill: "currentColor" }, svg, short(value)); }
  for (const value of y.ticks) { make("line", { x1: LEFT, x2: W - RIGHT, y1: y.at(value), y2: y.at(value), stroke: "currentColor", opacity: .12 }, svg); make("text", { x: LEFT - 6, y: y.at(value) + 4, "text-anchor": "end", fill: "currentColor" }, svg, axes[1]?.money ? money(value) : short(value)); }
  make("text", { x: (LEFT + W - RIGHT) / 2, y: H - 10, "text-anchor": "middle", fill: "currentColor" }, svg, axes[0]?.name ?? "");
  make("text", { x: 4, y: 11, fill: "currentColor" }, svg, axes[1]?.name ?? "");
  series.forEach((one, number) => {
    const colour = one.kind === "plans" ? "#0d5a6c" : COLOURS[number % COLOURS.length];
    if (one.kind === "line") make("polyline", { points: one.points.map(point => `${x.at(point[0])},${y.at(point[1])}`).join(" "), fill: "none", stroke: series.some(other => other.kind === "points") ? "currentColor" : colour, "stroke-width": 2, opacity: .8 }, svg);
    else for (const [px, py, text, rank] of one.points) {
      const chosen = rank && rank === model.get("selected");
      const group = make("g", rank ? { tabindex: 0, role: "button", "aria-pressed": String(Boolean(chosen)), "aria-label": `${rank}. ${text}`, "data-rank": rank, style: "cursor:pointer" } : {}, svg);
      make("circle", { cx: x.at(px), cy: y.at(py), r: rank ? 10 : 3, fill: colour, opacity: rank ? 1 : .6, stroke: chosen ? "currentColor" : "none", "stroke-width": 2 }, group);
      if (rank) make("text", { x: x.at(px), y: y.at(py) + 4, "text-anchor": "middle", fill: "#fff", "font-weight": 700 }, group, String(rank));
      make("title", {}, group, `${rank ? rank + ". " : one.name + " "}${text}: ${money(py)}, ${short(px)}`);
      if (rank) {
        const choose = () => { model.set("selected", rank); model.save_changes(); };
        group.addEventListener("click", choose);
        group.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } });
      }
    }
  });
  const legend = document.createElement("div");
  legend.style.cssText = "display:flex;flex-wrap:wrap;gap:4px 14px;font:12px system-ui,sans-serif";
  series.forEach((one, number) => {
    if (one.kind === "plans") return;
    const mark = document.createElement("span"), box = document.createElement("i");
    box.style.cssText = `display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:5px;background:${one.kind === "line" && series.some(other => other.kind === "points") ? "currentColor" : COLOURS[number % COLOURS.length]}`;
    mark.append(box, document.createTextNode(one.name));
    legend.appendChild(mark);
  });
  el.replaceChildren(svg, legend);
}

function render({ model, el }) {
  const again = () => draw(model, el);
  for (const name of ["series", "axes", "title", "sign", "selected"]) model.on(`change:${name}`, again);
  again();
}
export default { render };
