// Pending, Queue, Decisions.

import { get } from "./api.js";
import { barList, lineChart, short } from "./charts.js";
import { age, el, empty, middle, number, plural, redraw, show, table } from "./dom.js";

// Draws again at most once a second while things change, and only after the last drawing is done.
export function following(stream, names, draw) {
  let waiting = null,
    stopped = false;
  const again = () => {
    if (waiting !== null) return;
    waiting = setTimeout(async () => {
      waiting = null;
      if (!stopped) await draw();
    }, 1000);
  };
  const offs = names.map((name) => stream.on(name, again));
  return () => {
    stopped = true;
    clearTimeout(waiting);
    offs.forEach((off) => off());
  };
}

function podsOf(cause, opened, open) {
  const list = el(
    "details",
    { open: opened.has(cause.name) },
    el("summary", { class: "quiet" }, `${cause.name}: ${plural(cause.count, "pod")}`),
    el(
      "ul",
      { class: "pods" },
      cause.pods
        .slice(0, 200)
        .map((pod) =>
          el(
            "li",
            {},
            el("button", { class: "plain", "data-key": pod, onclick: () => open("pod", pod) }, pod),
          ),
        ),
    ),
  );
  list.addEventListener("toggle", () => {
    if (list.open) opened.add(cause.name);
    else opened.delete(cause.name);
  });
  return list;
}

function causesTable(caption, causes, open) {
  const rows = causes.map((cause) => ({
    key: cause.name,
    cells: [
      number(cause.count),
      el("b", { class: "which", title: cause.name }, middle(cause.name, 40)),
      cause.reason,
      cause.help,
    ],
    open: () =>
      cause.group ? open(cause.group.kind.toLowerCase(), cause.group.group) : open("pod", cause.pods[0]),
  }));
  return table(["pods", "which", "because", "helped by"], rows, { numeric: [0], caption });
}

export async function pending(place, { stream, open }) {
  const opened = new Set();
  const draw = async () => {
    const found = await get("/pending");
    const parts = [
      ["Causes", found.causes],
      ["Not decided by this scheduler", found.elsewhere],
      ["On a node and not running", found.notStarted],
      ["Not created", found.notCreated],
    ];
    const shown = parts.filter(([, causes]) => causes.length > 0),
      unread = found.incomplete.map((line) => el("p", { class: "incomplete" }, `incomplete: ${line}`));
    if (!shown.length)
      return redraw(
        place,
        el("h1", {}, "Pending"),
        unread,
        empty(`${found.headline} Create one:`, "kubectl run hello --image=nginx"),
      );
    redraw(
      place,
      el("h1", {}, found.headline),
      unread,
      shown.map(([heading, causes]) => [
        heading !== "Causes" && el("h2", {}, heading),
        causesTable(heading, causes, open),
        causes.map((cause) => cause.count > 1 && podsOf(cause, opened, open)),
      ]),
    );
  };
  await draw();
  return following(stream, ["queue"], draw);
}

export async function queue(place, { stream, open }) {
  const draw = async () => {
    const found = await get("/queue");
    const widths = found.lanes
      .map((lane) => (lane.pods.length ? "minmax(180px, 2fr)" : "minmax(110px, 1fr)"))
      .join(" ");
    redraw(
      place,
      el("h1", {}, "Queue"),
      el(
        "div",
        { class: "lanes", style: { gridTemplateColumns: widths } },
        found.lanes.map((lane) => laneOf(lane, open)),
      ),
    );
  };
  await draw();
  return following(stream, ["hello", "queue", "decisions"], draw);
}

function laneOf(lane, open) {
  const gangs = lane.pods.filter((one) => one.group),
    single = lane.total - gangs.reduce((sum, one) => sum + one.pods, 0);
  const shown = lane.pods.slice(0, 12),
    more = lane.total - shown.reduce((sum, one) => sum + (one.pods ?? 1), 0);
  return el(
    "section",
    { class: "lane", "aria-label": lane.name },
    el("h2", {}, el("span", {}, lane.name), el("b", {}, number(lane.total))),
    el("p", { class: "quiet" }, lane.text, lane.groups > 0 && ` · ${plural(lane.groups, "group")}`),
    el(
      "p",
      { class: "flow", title: "pods in and out, over the last minute" },
      lane.in === null ? "–" : flow(lane.in, lane.out),
    ),
    el(
      "div",
      { class: "dots", title: "a dot is a pod, a block is a hundred; the pods of a group are framed" },
      gangs.map((one) =>
        el("span", { class: "gang", title: `${one.group}: ${plural(one.pods, "pod")}` }, dotsOf(one.pods)),
      ),
      dotsOf(single),
    ),
    el(
      "ol",
      {},
      shown.map((one) => entryOf(one, open)),
    ),
    more > 0 && el("p", { class: "quiet" }, `and ${number(more)} younger`),
  );
}

const dotsOf = (count) => [
  ...Array.from({ length: Math.min(Math.floor(count / 100), 200) }, () => el("i", { class: "block" })),
  ...Array.from({ length: count % 100 }, () => el("i")),
];

// A pod in a lane, or a group, which is one entry however many pods it has.
function entryOf(one, open) {
  const [name, go] = one.group
    ? [one.group, () => open(one.kind.toLowerCase(), one.group)]
    : [one.pod, () => open("pod", one.pod)];
  const words = [
    one.group && `group of ${plural(one.pods, "pod")}`,
    one.since ? age(one.since) : one.node,
    one.brief,
  ];
  return el(
    "li",
    {
      tabindex: "0",
      class: "link",
      "data-key": name,
      title: one.cause,
      onclick: go,
      onkeydown: (event) => {
        if (event.key === "Enter") go();
      },
    },
    el("div", { class: "name", title: name }, middle(name, 34)),
    el("div", { class: "quiet" }, words.filter(Boolean).join(" · ")),
  );
}

// Pods a second, or a minute where that is the more readable figure.
function flow(incoming, outgoing) {
  const [factor, unit] = Math.max(incoming, outgoing) >= 1 ? [1, "/s"] : [60, "/min"];
  return `in ${short(+(incoming * factor).toFixed(1))} · out ${short(+(outgoing * factor).toFixed(1))} ${unit}`;
}

// Decisions come with the stream; all of them, with figures and charts, are loaded every ten seconds.
const DECISIONS = 200;
const RELOAD = 10000;

export async function decisions(place, { stream, open }) {
  const charts = el("div", { class: "charts" });
  const list = el("div");
  const heading = el("p", { class: "quiet" });
  let drawn = "";
  let items = [];
  let loaded = 0;
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
    redraw(
      list,
      items.length
        ? table(
            ["time", "pod", "node", "outcome", "points", "ahead by", "took", ""],
            byGroup(items).map((one) => decisionRow(one, open)),
            { numeric: [4, 5, 6], caption: "Latest decisions" },
          )
        : el("p", { class: "quiet" }, "Nothing has been decided lately."),
    );
    if (!place.contains(list))
      show(place, el("h1", {}, "Decisions"), heading, charts, el("h2", {}, "Latest"), list);
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

const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });
const milliseconds = (seconds) =>
  seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(2)} s`;
