// One node: what is on it, what it could still take, whom it turned away.

import { get, nodePath } from "./api.js";
import { age, amount, colour, el, middle, number, plural, show, table } from "./dom.js";
import { objectOf } from "./object.js";

export async function node(place, { name, open, close }) {
  if (!place.hasChildNodes()) show(place, el("p", { class: "quiet" }, `Looking at ${name}…`));
  const found = await get(nodePath(name));
  show(
    place,
    el(
      "div",
      { class: "bar-row" },
      el("h1", { class: "grow" }, found.name),
      el("button", { onclick: close, "aria-label": "Close" }, "Close"),
    ),
    el("p", {}, found.headline),
    el(
      "p",
      { class: "tries" },
      "What if: ",
      [
        ["drain", "it were drained"],
        found.headline.includes("cordoned")
          ? ["uncordon", "it were uncordoned"]
          : ["cordon", "it were cordoned"],
        ["remove", "it were gone"],
        ["copy", "there were one more like it"],
      ].map(([change, words]) => [
        el("a", { href: `#/try?${change}=${encodeURIComponent(found.name)}` }, words),
        " ",
      ]),
    ),
    found.taints.length > 0 &&
      el(
        "p",
        { class: "quiet" },
        `Taints: ${found.taints.map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`).join(", ")}`,
      ),
    el("h2", {}, "Requested"),
    strips(found, open),
    found.devices.length > 0 && devices(found, open),
    found.couldTake.length > 0 && [
      el("h2", {}, "Could still take"),
      table(
        ["like", "more", ""],
        found.couldTake.map((one) => ({
          cells: [one.like, number(one.more), one.reason],
          open: () => open("pod", one.like),
        })),
        { numeric: [1] },
      ),
    ],
    found.turnedAway.length > 0 && [
      el("h2", {}, "Turned away in the last ten minutes"),
      turnedAway(found, open),
    ],
    el(
      "h2",
      {},
      `Pods (${number(found.pods.length)}${found.hiddenPods ? `, ${number(found.hiddenPods)} not shown` : ""})`,
    ),
    found.pods.length
      ? table(
          ["pod", "priority", "requests"],
          found.pods.map((one) => ({
            cells: [
              one.pod,
              String(one.priority),
              Object.entries(one.requests)
                .map(([resource, value]) => `${amount(resource, value)} ${resource}`)
                .join(", "),
            ],
            open: () => open("pod", one.pod),
          })),
          { numeric: [1] },
        )
      : el("p", { class: "quiet" }, "None."),
    objectOf(nodePath(name), open),
    el("h2", {}, "Labels"),
    table(
      ["key", "value"],
      Object.entries(found.labels)
        .sort()
        .map(([key, value]) => ({ cells: [key, value] })),
    ),
  );
}

// Devices, a square each: taken ones are filled, tainted ones crossed; in words below, by holder.
function devices(found, open) {
  const taken = found.devices.filter((one) => one.taken);
  const words = (one) =>
    [
      one.name,
      one.taken ? `held by ${one.claim || "a claim of another namespace"}` : "free",
      ...one.taints.map((taint) => `taint ${taint}`),
      one.counters.length > 0 && `shares ${one.counters.join(", ")}`,
    ]
      .filter(Boolean)
      .join(", ");
  const squares = found.devices.map((one) =>
    el("i", {
      class: [one.taken ? "taken" : "free", one.taints.length > 0 && "tainted"].filter(Boolean).join(" "),
      title: words(one),
    }),
  );
  const holders = new Map();
  for (const one of taken) {
    const pods = one.pods.length ? one.pods : [one.claim || "a claim of another namespace"];
    for (const holder of pods) holders.set(holder, [...(holders.get(holder) ?? []), one.name]);
  }
  const rows = [...holders].map(([holder, names]) => ({
    cells: [holder, names.join(", ")],
    open: taken.some((one) => one.pods.includes(holder)) ? () => open("pod", holder) : null,
  }));
  return [
    el("h2", {}, `Devices (${number(taken.length)} of ${number(found.deviceCount)} taken)`),
    el("div", { class: "devices of-node" }, squares),
    deviceKey(found.devices),
    rows.length > 0 && table(["held by", "devices"], rows, { caption: "Devices by holder" }),
    found.counters.length > 0 && counters(found.counters),
  ];
}

const deviceKey = (devices) => {
  const item = (kind, words) =>
    el("li", {}, el("span", { class: "devices of-node" }, el("i", { class: kind })), words);
  return el(
    "ul",
    { class: "legend" },
    item("taken", "taken"),
    item("free", "free"),
    devices.some((one) => one.taints.length > 0) && item("free tainted", "tainted"),
  );
};

// What partitions share: a free one that needs more than is left cannot be taken.
function counters(some) {
  const bars = some.map((one) => [
    el("span", { class: "name", title: `${one.set} ${one.counter}` }, `${one.set} ${one.counter}`),
    el(
      "span",
      { class: "track" },
      el("i", {
        style: {
          width: `${Math.min(100, 100 * one.share)}%`,
          background: one.share >= 0.98 ? "var(--fill-full)" : one.share >= 0.8 ? "var(--fill-high)" : null,
        },
      }),
    ),
    el("span", { class: "num" }, `${one.drawn} of ${one.total}`),
  ]);
  return el(
    "details",
    { open: some.length <= 16 },
    el("summary", { class: "quiet" }, "Counters that its devices share"),
    el("div", { class: "bars" }, bars),
  );
}

// Pods of one template that were turned away for one reason are one line.
function turnedAway(found, open) {
  const lines = new Map();
  for (const one of found.turnedAway) {
    const key = [one.plugin, one.reason, one.pod.replace(/-[^-]+$/, "")].join("|");
    if (lines.has(key)) lines.get(key).more += 1;
    else lines.set(key, { ...one, more: 0 });
  }
  return table(
    ["pod", "when", "why"],
    [...lines.values()].map((one) => ({
      cells: [
        [one.pod, one.more > 0 && el("span", { class: "quiet" }, ` and ${number(one.more)} like it`)],
        el("span", { class: "tight" }, `${age(one.time)} ago`),
        `${one.plugin}: ${one.reason}`,
      ],
      open: () => open("pod", one.pod),
    })),
    { caption: "Turned away" },
  );
}

const KEYED = 7; // pods with a colour of their own; the others share one

// The part of the node that a pod takes: of the resource of which it takes most.
const dominant = (found, one) =>
  Math.max(
    0,
    ...Object.entries(found.resources).map(([resource, { allocatable }]) =>
      allocatable ? (one.requests[resource] ?? 0) / allocatable : 0,
    ),
  );

// A strip for each resource: the pods with the largest part of the node first, each with its colour.
function strips(found, open) {
  const pods = [...found.pods].sort((one, other) => dominant(found, other) - dominant(found, one));
  const shade = (place) => (place < KEYED ? colour(place) : "var(--quiet)");
  const rows = Object.entries(found.resources).map(([resource, { allocatable, requested }]) => {
    const words = `${amount(resource, requested)} of ${amount(resource, allocatable)}`;
    const values = pods.map((one) => (resource === "pods" ? 1 : (one.requests[resource] ?? 0)));
    return [
      el("span", { class: "name" }, resource),
      el(
        "div",
        { class: "stack", role: "img", "aria-label": `${resource}: ${words} requested`, title: words },
        values.map((value, place) =>
          el("i", {
            title: `${pods[place].pod}: ${amount(resource, value)} ${resource}`,
            style: { width: `${(100 * value) / Math.max(allocatable, 1)}%`, background: shade(place) },
          }),
        ),
      ),
      el("span", { class: "num" }, words),
    ];
  });
  const item = (place, ...words) =>
    el("li", {}, el("span", { class: "swatch", style: { background: shade(place) } }), ...words);
  const others = pods.length - KEYED;
  const key = [
    ...pods
      .slice(0, KEYED)
      .map((one, place) =>
        item(
          place,
          el(
            "button",
            { class: "plain", title: one.pod, onclick: () => open("pod", one.pod) },
            middle(one.pod, 34),
          ),
        ),
      ),
    others > 0 && item(KEYED, plural(others, "other pod")),
    el("li", {}, el("span", { class: "swatch", style: { background: "var(--tile)" } }), "free"),
  ];
  return [el("div", { class: "bars" }, rows), el("ul", { class: "legend" }, key)];
}
