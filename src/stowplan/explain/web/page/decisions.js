// Decisions: the latest as a list, and how they went over the last minutes.

import { get } from "./api.js";
import { barList, lineChart, short } from "./charts.js";
import { clock, el, empty, number, plural, redraw, show, table } from "./dom.js";
import { following } from "./follow.js";

// Decisions come with the stream; all of them, with figures and charts, are loaded every ten seconds.
const DECISIONS = 100;
const RELOAD = 10000;

export async function decisions(place, { stream, open, choose, query }) {
  const charts = el("div", { class: "charts" });
  const list = el("div");
  const heading = el("p", { class: "quiet" });
  let drawn = "";
  let items = [];
  let loaded = 0;
  const only = el("input", { type: "checkbox", id: "evictions", checked: query.get("only") === "evictions" });
  only.addEventListener("change", () => {
    choose({ only: only.checked ? "evictions" : null });
    draw();
  });
  const load = async () => {
    const found = await get(`/decisions?limit=${DECISIONS}`);
    loaded = Date.now();
    items = found.items;
    const latency = found.latency
      ? ` · from queue to binding ${milliseconds(found.latency.p50)} (p50), ${milliseconds(found.latency.p99)} (p99)`
      : "";
    heading.textContent = `${found.rate === null ? "" : `${short(found.rate)} pods a second`}${latency}`;
    const newest = found.history?.times.at(-1) ?? "";
    if (newest !== drawn && !charts.matches(":hover")) {
      drawn = newest;
      show(charts, chartsOf(found));
    }
  };
  const draw = async () => {
    if (Date.now() - loaded > RELOAD) await load();
    if (!items.length && !drawn) {
      return redraw(
        place,
        el("h1", {}, "Decisions"),
        empty("Nothing has been decided yet. Create a pod:", "kubectl run hello --image=nginx"),
      );
    }
    const shown = only.checked ? items.filter((one) => one.victims.length) : items;
    redraw(
      list,
      shown.length
        ? table(
            ["time", "pod", "node", "outcome", "points", "ahead by", "took", ""],
            byGroup(shown).map((one) => decisionRow(one, open)),
            { numeric: [4, 5, 6], caption: "Latest decisions" },
          )
        : el(
            "p",
            { class: "quiet" },
            only.checked ? "No pod was evicted lately." : "Nothing has been decided lately.",
          ),
    );
    if (!place.contains(list))
      show(
        place,
        el("h1", {}, "Decisions"),
        heading,
        charts,
        el("div", { class: "bar-row" }, el("h2", {}, "Latest"), el("label", {}, only, " only evictions")),
        list,
      );
  };
  await draw();
  const offs = [
    stream.on("decisions", (fresh) => {
      const known = new Set(fresh.items.map((one) => `${one.pod} ${one.attempt}`));
      items = [...fresh.items, ...items.filter((one) => !known.has(`${one.pod} ${one.attempt}`))];
      items = items.slice(0, DECISIONS);
      if (!fresh.complete) loaded = 0;
    }),
    following(stream, ["hello", "decisions"], draw),
  ];
  return () => offs.forEach((off) => off());
}

function chartsOf(found) {
  const history = found.history;
  if (!history || !history.times.length)
    return el("p", { class: "quiet" }, history ? "Charts appear after the first seconds." : "");
  const times = history.times.map((time) => Date.parse(time) / 1000);
  const rates = [{ name: "bound", values: history.bound }];
  if (history.unschedulable.some(Boolean))
    rates.push({ name: "no node fits", values: history.unschedulable });
  if (history.errors.some(Boolean)) rates.push({ name: "errors", values: history.errors });
  const thousand = (values) => values.map((value) => (value === null ? null : value * 1000));
  const plugins = found.plugins.slice(0, 7),
    rest = found.plugins.slice(7).reduce((sum, one) => sum + one.share, 0);
  const shares = plugins.map((one) => ({ label: `${one.plugin} ${one.point}`, value: 100 * one.share }));
  if (rest > 0) shares.push({ label: `${found.plugins.length - 7} others`, value: 100 * rest });
  return [
    lineChart({ title: "Attempts", unit: "/s", times, series: rates }),
    lineChart({
      title: "Queue to binding",
      unit: "ms",
      times,
      series: [
        { name: "p50", values: thousand(history.p50) },
        { name: "p99", values: thousand(history.p99) },
      ],
    }),
    el(
      "figure",
      { class: "chart" },
      el("figcaption", {}, el("b", {}, "Plugins' share of time")),
      shares.length
        ? barList(shares, { unit: "%", format: (value) => value.toFixed(1) })
        : el("p", { class: "quiet" }, "Plugins are timed in one attempt of ten; none was yet."),
    ),
  ];
}

// Members of a group are decided on together: one line for all of them with the same outcome at the same time.
function byGroup(items) {
  const lines = [];
  for (const one of items) {
    const last = lines.at(-1);
    if (
      one.group &&
      last?.group === one.group &&
      last.outcome === one.outcome &&
      last.attempt === one.attempt &&
      Math.abs(Date.parse(last.time) - Date.parse(one.time)) < 2000
    )
      last.pods += 1;
    else lines.push({ ...one, pods: 1 });
  }
  return lines;
}

function decisionRow(one, open) {
  if (one.pods > 1) {
    return {
      key: `${one.group} ${one.attempt}`,
      cells: [
        el("span", { class: "tight" }, clock(one.time)),
        [one.group, el("span", { class: "quiet" }, ` · ${plural(one.pods, "pod")}`)],
        "",
        el(
          "span",
          { class: one.outcome === "unschedulable" || one.outcome === "error" ? "tight bad" : "tight" },
          one.outcome,
        ),
        "",
        "",
        one.seconds === null ? "" : milliseconds(one.seconds),
        el("span", { class: "cut", title: one.message }, one.brief),
      ],
      open: () => open("podgroup", one.group),
    };
  }
  return {
    key: `${one.pod} ${one.attempt}`,
    cells: [
      el("span", { class: "tight" }, clock(one.time)),
      one.pod,
      el("span", { class: "tight" }, one.node ?? ""),
      el(
        "span",
        { class: one.outcome === "unschedulable" || one.outcome === "error" ? "tight bad" : "tight" },
        one.outcome,
      ),
      one.points ?? "",
      one.ties > 1 ? `tie of ${number(one.ties)}` : (one.margin ?? ""),
      one.seconds === null ? "" : milliseconds(one.seconds),
      el("span", { class: "cut", title: one.message }, one.brief),
    ],
    open: () => open("pod", one.pod),
  };
}

const milliseconds = (seconds) =>
  seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(2)} s`;
