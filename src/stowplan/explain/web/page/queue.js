// The queue: a lane for every place a pod can wait at.

import { get } from "./api.js";
import { short } from "./charts.js";
import { age, el, middle, number, plural, redraw } from "./dom.js";
import { following } from "./follow.js";

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
