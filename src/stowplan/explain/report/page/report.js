// A report of a command: its parts drawn one after the other. The document is in the page; nothing is fetched.

import { barList, funnel, lineChart, stackedBars } from "./charts.js";
import { el, number, real, table } from "./dom.js";
import { Tiles } from "./tiles.js";

const words = (value) =>
  typeof value === "number"
    ? Number.isInteger(value)
      ? number(value)
      : String(+value.toPrecision(4))
    : (value ?? "");

const PARTS = {
  text: (part) => part.text.split("\n").map((line) => el("p", {}, line)),
  figures: (part) =>
    el(
      "div",
      { class: "figures" },
      part.figures.map((one) =>
        el(
          "div",
          {},
          one.label,
          el("b", { class: one.tone || null }, words(one.value)),
          one.note ? el("span", { class: "note" }, one.note) : null,
        ),
      ),
    ),
  table: (part) => [
    el(
      "div",
      { class: "scroll" },
      table(
        part.headings,
        part.rows.map((row) => ({ cells: row.map(words) })),
        { numeric: part.numeric, caption: part.title },
      ),
    ),
    part.more ? el("p", { class: "quiet" }, `and ${number(part.more)} more`) : null,
  ],
  bars: (part) => barList(part.bars, { unit: part.unit, format: words }),
  funnel: (part) => funnel(part.total, part.steps, part.unit),
  stackedBars: (part) => stackedBars(part.names, part.bars, { unit: part.unit }),
  timeSeries: (part) =>
    lineChart({
      title: "",
      times: part.times,
      series: part.series,
      unit: part.unit,
      dates: part.dates,
      height: 190,
    }),
  charts: (part, level) =>
    el(
      "div",
      { class: "charts" },
      part.parts.map((one) => el("section", {}, drawn(one, level))),
    ),
  tiles: tilesOf,
  section: (part, level) => inRows(part.parts).map((one) => drawn(one, level + 1)),
  columns: (part, level) =>
    el(
      "div",
      { class: "columns" },
      part.columns.map((one) => el("section", {}, drawn(one, level))),
    ),
};

// Charts that follow each other stand beside each other where there is room.
function inRows(parts) {
  const rows = [];
  for (const part of parts) {
    const last = rows.at(-1);
    if (part.kind !== "timeSeries") rows.push(part);
    else if (last?.kind === "charts") last.parts.push(part);
    else rows.push({ kind: "charts", parts: [part] });
  }
  return rows;
}

/** @type {("h1" | "h2" | "h3" | "h4")[]} */
const HEADINGS = ["h1", "h2", "h3", "h4"];
function drawn(part, level = 2) {
  const body = PARTS[part.kind](part, level);
  if (part.folded) return el("details", {}, el("summary", {}, part.title || "more"), body);
  return [part.title ? el(HEADINGS[Math.min(level, 4) - 1], {}, part.title) : null, body];
}

function tilesOf(part) {
  const flat = part.groups.flatMap((group) =>
    group.names.map((name, index) => ({
      name,
      fill: group.fills[index],
      note: group.notes[index] ?? "",
      hatched: group.hatched[index] ?? 0,
    })),
  );
  let start = 0;
  const groups = part.groups.map((group) => {
    const nodes = group.names.map((_, index) => start + index);
    start += group.names.length;
    return { name: group.name, nodes };
  });
  const canvas = el("canvas", {
    role: "img",
    "aria-label": `${part.title || "Nodes"}: ${number(flat.length)} tiles, filled by ${part.what}`,
  });
  const tip = el("div", { class: "tip", hidden: true });
  const tiles = new Tiles(canvas, {
    onHover: (index, event) => {
      tip.hidden = index < 0;
      if (index < 0) return;
      const one = flat[index];
      tip.replaceChildren(
        el("b", {}, one.name),
        el("div", {}, `${Math.round(100 * one.fill)} % ${part.what}`),
        ...(one.note ? [el("div", {}, one.note)] : []),
      );
      tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 260)}px`;
      tip.style.top = `${event.clientY + 14}px`;
    },
    onOpen: () => {},
  });
  const paint = () => {
    const low = real("--fill"),
      high = real("--fill-high"),
      full = real("--fill-full");
    tiles.set(groups, (index) => {
      const one = flat[index];
      return {
        fill: one.fill,
        colour: one.fill >= 0.98 ? full : one.fill >= 0.8 ? high : low,
        hatched: one.hatched,
        name: one.name,
        words: `${Math.round(100 * one.fill)} %`,
      };
    });
  };
  paint();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  return [el("div", { class: "tiles-frame" }, canvas), tip];
}

const report = JSON.parse(document.getElementById("report").textContent);
const json = el("details", {}, el("summary", {}, "The data as JSON"));
json.addEventListener("toggle", () => {
  if (json.children.length === 1) json.append(el("pre", {}, JSON.stringify(report.data, null, 2)));
});
document.body.append(
  el(
    "main",
    {},
    el("h1", {}, report.title),
    report.summary ? el("p", { class: "summary" }, report.summary) : null,
    inRows(report.parts).flatMap((part) => drawn(part)),
    json,
  ),
);
