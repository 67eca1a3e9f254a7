// The answer to what was tried: a sentence, the nodes before and after as two maps, who moves, who waits and why.

import { bestKey, groupsOf, share, stateOf } from "./cluster.js";
import { amount, el, number, plural, real, show, table } from "./dom.js";
import { command, remedies } from "./remedies.js";
import { keep } from "./save.js";
import { Tiles } from "./tiles.js";

const MOST_USED = "most used";
const SHOWN = 50; // lines of a table

// `explained` has the explanations of pods that do not fit; `edit` puts other manifests into the form.
export function answered(found, { open, explained, edit }) {
  const bad = found.question === "fit" ? !found.result.fits : Object.keys(found.result.pending).length > 0;
  return [
    explained?.pods.length === 1
      ? [el("p", { class: "headline bad" }, `${explained.pods[0].headline}.`), el("p", {}, found.summary)]
      : el("p", { class: `headline ${bad ? "bad" : "good"}` }, found.summary),
    figures(found),
    explained && why(explained, open, edit),
    found.before && found.after && maps(found, open),
    found.question === "fit" ? fits(found.result) : moves(found.result, open),
    found.notes.length > 0 && [
      el("h2", {}, "Not looked at"),
      el(
        "ul",
        { class: "plain-list" },
        found.notes.map((one) => el("li", {}, one)),
      ),
    ],
    el("h2", {}, "The same on the command line"),
    command(found.command),
    el(
      "p",
      { class: "row" },
      found.report &&
        el(
          "button",
          { onclick: () => keep(new Blob([found.report], { type: "text/html" }), "stowplan-try.html") },
          "Keep as HTML",
        ),
      el(
        "span",
        { class: "quiet" },
        `${found.seconds} s of CPU, at most ${found.limits.seconds} s. Nothing was written.`,
      ),
    ),
  ];
}

function figures(found) {
  const figure = (label, value, tone = null) => el("div", {}, label, el("b", { class: tone }, number(value)));
  const { result } = found;
  if (found.question === "fit") {
    const asked = result.workloads.reduce((sum, one) => sum + one.asked, 0);
    const more = result.workloads.length === 1 ? result.workloads[0] : null;
    return el(
      "div",
      { class: "figures" },
      figure(`of ${plural(asked, "pod fits", "pods fit")}`, result.replicas, result.fits ? "good" : "bad"),
      figure("nodes take them", Object.keys(result.placements).length),
      more?.fits &&
        more.more !== null &&
        figure(more.moreIsAtLeast ? "more, at least" : "more would fit", more.more),
    );
  }
  const size = (object) => Object.keys(object).length;
  return el(
    "div",
    { class: "figures" },
    figure("pods move", result.moved.length),
    size(result.placed) > 0 && figure("new pods placed", size(result.placed)),
    size(result.nowPlaced) > 0 && figure("waited, get a node", size(result.nowPlaced), "good"),
    figure("stay pending", size(result.pending), size(result.pending) ? "bad" : "good"),
    result.lost.length > 0 && figure("gone for good", result.lost.length, "bad"),
    size(result.blocked) > 0 && figure("blocked by budgets", size(result.blocked), "bad"),
  );
}

// Two maps with the same grouping and fill. Nodes that differ are outlined.
function maps(found, open) {
  const { before, after } = found;
  const state = { key: bestKey(after.names.length >= before.names.length ? after : before), fill: MOST_USED };
  const there = new Map(before.names.map((name, index) => [name, index]));
  const then = new Map(after.names.map((name, index) => [name, index]));
  const differs = (name) => {
    const [old, now] = [there.get(name), then.get(name)];
    if (old === undefined || now === undefined) return true;
    return (
      before.unschedulable[old] !== after.unschedulable[now] ||
      after.resources.some(
        (one) => (before.requested[one]?.[old] ?? 0) !== (after.requested[one]?.[now] ?? 0),
      )
    );
  };
  const changed = [...new Set([...before.names, ...after.names])].filter(differs);
  if (!changed.length) return found.question === "fit" ? null : el("p", {}, "No node would differ.");
  const marked = new Set(changed);
  const tip = el("div", { class: "tip", hidden: true });
  const sides = [
    ["before", before],
    ["after", after],
  ].map(([title, nodes]) => {
    const canvas = el("canvas", {
      role: "img",
      tabindex: "0",
      "aria-label": `Nodes ${title}: ${number(nodes.names.length)} tiles; the table below has what differs`,
    });
    const tiles = new Tiles(canvas, {
      onHover: (index, event) => hover(index < 0 ? null : nodes.names[index], event),
      onOpen: (index) => there.has(nodes.names[index]) && open("node", nodes.names[index]),
    });
    return { title, nodes, canvas, tiles };
  });
  const hover = (name, event) => {
    tip.hidden = name === null;
    if (name === null) return;
    const [old, now] = [there.get(name), then.get(name)];
    const told = (nodes, index, resource) =>
      index === undefined ? "–" : amount(resource, nodes.requested[resource]?.[index] ?? 0);
    const words = old === undefined ? "new" : now === undefined ? "removed" : null;
    show(
      tip,
      el("b", {}, name),
      words && el("div", {}, words),
      after.resources
        .filter((one) => (before.allocatable[one]?.[old] ?? 0) || (after.allocatable[one]?.[now] ?? 0))
        .map((one) => el("div", {}, `${one}: ${told(before, old, one)} → ${told(after, now, one)}`)),
    );
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 260)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - 140)}px`;
  };
  const draw = () => {
    const [low, high, full] = [real("--fill"), real("--fill-high"), real("--fill-full")];
    for (const { nodes, tiles } of sides) {
      tiles.set(groupsOf(nodes, state.key), (index) => {
        const fill = share(nodes, state.fill, index);
        return {
          fill,
          colour: fill >= 0.98 ? full : fill >= 0.8 ? high : low,
          absent: state.fill !== MOST_USED && !nodes.allocatable[state.fill]?.[index],
          ...stateOf(nodes, index),
          marked: marked.has(nodes.names[index]),
          words: `${Math.round(100 * fill)} %`,
        };
      });
    }
  };
  const choice = (label, name, values) =>
    el(
      "label",
      {},
      `${label} `,
      el(
        "select",
        {
          onchange: (event) => {
            state[name] = event.target.value;
            draw();
          },
        },
        values.map((value) =>
          el("option", { value, selected: value === state[name] }, value || "all together"),
        ),
      ),
    );
  const theme = window.matchMedia("(prefers-color-scheme: dark)");
  theme.addEventListener("change", () => sides[0].canvas.isConnected && draw());
  draw(); // Painted as soon as there is room: a canvas draws when its size is known.
  return el(
    "div",
    {},
    el(
      "div",
      { class: "bar-row" },
      choice("Group by", "key", [...after.keys, ""]),
      choice("Fill", "fill", [MOST_USED, ...after.resources]),
    ),
    el(
      "div",
      { class: "sides" },
      sides.map(({ title, nodes, canvas }) =>
        el(
          "figure",
          {},
          el("figcaption", {}, el("b", {}, title), ` · ${plural(nodes.names.length, "node")}`),
          el("div", { class: "tiles-frame" }, canvas),
        ),
      ),
    ),
    el(
      "ul",
      { class: "legend" },
      el(
        "li",
        {},
        el("span", { class: "swatch changed" }),
        plural(changed.length, "node differs", "nodes differ"),
      ),
      after.unschedulable.some(Boolean) && el("li", { class: "quiet" }, "hatched: cordoned"),
    ),
    tip,
    el(
      "details",
      {},
      el("summary", {}, "Nodes that differ"),
      nodesOf(changed.slice(0, SHOWN), before, after, there, then),
      changed.length > SHOWN && el("p", { class: "quiet" }, `and ${number(changed.length - SHOWN)} more`),
    ),
  );
}

function nodesOf(names, before, after, there, then) {
  const resources = after.resources.filter(
    (one) => one === "pods" || one === "cpu" || one === "memory" || one.includes("/"),
  );
  const cell = (nodes, index, one) =>
    index === undefined ? "–" : amount(one, nodes.requested[one]?.[index] ?? 0);
  const rows = names.map((name) => {
    const [old, now] = [there.get(name), then.get(name)];
    const words = [
      old === undefined && "new",
      now === undefined && "removed",
      old !== undefined &&
        now !== undefined &&
        before.unschedulable[old] !== after.unschedulable[now] &&
        (after.unschedulable[now] ? "cordoned" : "uncordoned"),
    ].filter(Boolean);
    return {
      cells: [
        [name, words.length > 0 && el("span", { class: "quiet" }, ` ${words.join(", ")}`)],
        ...resources.map((one) => `${cell(before, old, one)} → ${cell(after, now, one)}`),
      ],
    };
  });
  const numeric = resources.map((_, index) => index + 1);
  return el(
    "div",
    { class: "scroll" },
    table(["node", ...resources], rows, { caption: "Nodes that differ", numeric }),
  );
}

// Why pods of manifests would wait, and the changes that would help.
function why(explained, open, edit) {
  return explained.pods
    .filter((one) => one.state === "pending")
    .map((one) => [
      el("h2", {}, `Why ${one.pod} would wait`),
      el("p", {}, one.cause || one.headline),
      one.changes.length > 0 &&
        remedies(
          one.changes.map((change) => ({ ...change, command: change.patch ? "" : change.command })),
          {
            most: 5,
            open,
            use: (change) => {
              const text = explained.edits[one.changes.findIndex((other) => other.text === change.text)];
              return text
                ? [
                    " ",
                    el(
                      "button",
                      { onclick: () => edit(text), "aria-label": `Try this change: ${change.text}` },
                      "Try this change",
                    ),
                  ]
                : null;
            },
          },
        ),
    ]);
}

function fits(result) {
  return result.workloads.map((one) => [
    result.workloads.length > 1 && el("h2", {}, one.workload),
    Object.keys(one.placements).length > 0 && [
      el("h2", {}, "Where they would go"),
      rowsOf(
        ["node", "pods"],
        Object.entries(one.placements).sort((a, b) => b[1] - a[1]),
        [1],
      ),
    ],
    one.evictions.length > 0 && [
      el("h2", {}, "Who would be evicted"),
      rowsOf(
        ["pod", "from", "for"],
        one.evictions.map((gone) => [gone.pod, gone.node, gone.by]),
      ),
    ],
    waiting(one.pending),
    one.notCreated && el("p", { class: "bad" }, one.notCreated.message),
  ]);
}

function moves(result, open) {
  const pod = (key) => el("button", { class: "plain", onclick: () => open("pod", key) }, key);
  const pairs = (object) => Object.entries(object);
  return [
    result.moved.length > 0 && [
      el("h2", {}, "Who moves"),
      rowsOf(
        ["pod", "from", "to"],
        result.moved.map((one) => [pod(one.pod), one.from, one.to]),
      ),
    ],
    pairs(result.nowPlaced).length > 0 && [
      el("h2", {}, "Pending before, placed then"),
      rowsOf(
        ["pod", "to"],
        pairs(result.nowPlaced).map(([key, node]) => [pod(key), node]),
      ),
    ],
    pairs(result.placed).length > 0 && [
      el("h2", {}, "New pods"),
      rowsOf(["pod", "to"], pairs(result.placed)),
    ],
    waiting(result.pending),
    result.lost.length > 0 && [
      el("h2", {}, "Gone for good: no controller"),
      rowsOf(
        ["pod"],
        result.lost.map((key) => [key]),
      ),
    ],
    pairs(result.blocked).length > 0 && [
      el("h2", {}, "Not evicted because of budgets"),
      rowsOf(
        ["pod", "budget"],
        pairs(result.blocked).map(([key, budget]) => [pod(key), String(budget)]),
      ),
    ],
    result.notCreated.map((one) => el("p", { class: "bad" }, one.message ?? "")),
    el("h2", {}, "Before and after"),
    comparison(result.before, result.after),
  ];
}

// Pods that wait for the same reason are one line.
function waiting(pending) {
  const reasons = new Map();
  for (const [key, reason] of Object.entries(pending))
    reasons.set(reason, [...(reasons.get(reason) ?? []), key]);
  if (!reasons.size) return null;
  const named = (keys) =>
    `${keys.slice(0, 3).join(", ")}${keys.length > 3 ? ` and ${number(keys.length - 3)} more` : ""}`;
  return [
    el("h2", {}, "Who stays pending, and why"),
    rowsOf(
      ["pods", "", "why"],
      [...reasons].map(([reason, keys]) => [
        keys.length,
        el("span", { class: "tight" }, named(keys)),
        reason,
      ]),
      [0],
    ),
  ];
}

function comparison(before, after) {
  const percent = (side, name) => (name in side.utilisation ? `${side.utilisation[name].percent} %` : "");
  const rows = [
    ["nodes", before.nodes, after.nodes],
    ["schedulable nodes", before.schedulable, after.schedulable],
    ["empty nodes", before.emptyNodes, after.emptyNodes],
    ["pods on nodes", before.pods, after.pods],
    ["pods pending", before.pending, after.pending],
    ...Object.keys(before.utilisation).map((name) => [
      `${name} requested`,
      percent(before, name),
      percent(after, name),
    ]),
    ["spread constraints violated", before.spread.violated, after.spread.violated],
  ];
  return table(
    ["", "before", "after"],
    rows.map(([what, one, other]) => ({
      cells: [what, String(one), one === other ? String(other) : el("b", {}, String(other))],
    })),
    { caption: "Before and after", numeric: [1, 2] },
  );
}

function rowsOf(headings, rows, numeric = []) {
  return el(
    "div",
    { class: "scroll" },
    table(
      headings,
      rows
        .slice(0, SHOWN)
        .map((cells) => ({ cells: cells.map((one) => (typeof one === "number" ? number(one) : one)) })),
      { caption: headings.join(", "), numeric },
    ),
    rows.length > SHOWN && el("p", { class: "quiet" }, `and ${number(rows.length - SHOWN)} more`),
  );
}
