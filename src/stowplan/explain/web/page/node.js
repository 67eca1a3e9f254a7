// One node: what is on it, what it could still take, whom it turned away.

import { get, nodePath } from "./api.js";
import { age, amount, colour, el, number, show, table } from "./dom.js";
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
    found.taints.length > 0 &&
      el(
        "p",
        { class: "quiet" },
        `Taints: ${found.taints.map((taint) => `${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}`).join(", ")}`,
      ),
    el("h2", {}, "Requested"),
    strips(found),
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
    rows.length > 0 && table(["held by", "devices"], rows, { caption: "Devices by holder" }),
  ];
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

function strips(found) {
  return el(
    "div",
    { class: "bars" },
    Object.entries(found.resources).map(([resource, { allocatable, requested }]) => {
      const words = `${amount(resource, requested)} of ${amount(resource, allocatable)}`;
      const pods = found.pods.map((one) => (resource === "pods" ? 1 : (one.requests[resource] ?? 0)));
      return [
        el("span", { class: "name" }, resource),
        el(
          "div",
          { class: "stack", title: words },
          pods.map((value, index) =>
            el("i", {
              title: found.pods[index].pod,
              style: { width: `${(100 * value) / Math.max(allocatable, 1)}%`, background: colour(index) },
            }),
          ),
        ),
        el("span", { class: "num" }, words),
      ];
    }),
  );
}
