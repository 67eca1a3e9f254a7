// One pod: its state in a sentence, then the evidence, then what would help.

import { get, podPath } from "./api.js";
import { funnel, stackedBars } from "./charts.js";
import { age, el, number, plural, show, table } from "./dom.js";

export async function pod(place, { name, open, close }) {
  show(place, el("p", { class: "quiet" }, `Explaining ${name}…`));
  const found = await get(podPath(name));
  show(place,
    el("div", { class: "bar-row" }, el("h1", { class: "grow" }, found.pod), el("button", { onclick: close, "aria-label": "Close" }, "Close")),
    el("p", {}, state(found)),
    el("p", { class: "quiet" }, situation(found)),
    found.node && el("p", {}, el("button", { class: "plain", onclick: () => open("node", found.node) }, found.node)),
    el("p", {}, el("a", { href: `#/cluster?pod=${encodeURIComponent(found.pod)}~pod/${encodeURI(found.pod)}` }, "Show on the map")),
    found.funnel.length > 0 && [el("h2", {}, "Nodes ruled out"), funnel(found.nodes, stepsOf(found))],
    found.nearMisses.length > 0 && [el("h2", {}, "Closest: only one thing in the way"), nearMisses(found, open)],
    found.changes.length > 0 && [el("h2", {}, "Any one of these would place it (each tried on the live state)"), changes(found, open)],
    found.state === "pending" && !found.changes.length && found.funnel.length > 0 && el("p", { class: "quiet" }, "No single change was found that would place it."),
    found.scores && found.scores.length > 0 && [el("h2", {}, "Points of the best nodes, by plugin"), scores(found, open)],
    found.preemption && found.preemption.message && found.state === "pending" && [el("h2", {}, "Preemption"), el("p", {}, found.preemption.message)],
    found.wakes.length > 0 && [el("h2", {}, "Wakes it"), wakes(found)],
    found.attempts.length > 0 && [el("h2", {}, "Attempts"), attempts(found)],
    raw(found));
}

function state(found) {
  if (found.state === "placed") {
    const again = found.wouldGoTo === found.node ? "It would be placed there again now." : found.wouldGoTo ? `It would go to ${found.wouldGoTo} now.` : found.message;
    return `On ${found.node}. ${again}`;
  }
  if (found.state === "fits") return `Not on a node yet: ${plural(found.feasible, "node")} of ${number(found.nodes)} would take it.`;
  return found.funnel.length ? `Pending: no node fits (0 of ${number(found.nodes)}).` : `Pending: ${found.message}`;
}

function situation(found) {
  const queue = found.queue, parts = [];
  if (queue && !found.node) {
    parts.push(`in ${queue.place}${queue.since ? ` for ${age(queue.since)}` : ""}`);
    for (const [plugin, said] of Object.entries(queue.heldBy)) parts.push(`${plugin}: ${said}`);
    if (queue.until) parts.push(`tried again at ${new Date(queue.until).toLocaleTimeString([], { hour12: false })} at the latest`);
  }
  parts.push(`priority ${found.priority}`, `source: ${found.source}`);
  if (found.nominatedNode) parts.push(`nominated node ${found.nominatedNode}`);
  return parts.join(" · ");
}

const stepsOf = (found) => found.funnel.map((line) => ({ label: line.plugin, value: line.nodes, note: line.reason }));

function nearMisses(found, open) {
  const shown = found.nearMisses.slice(0, 8);
  const rows = shown.map((miss) => ({ cells: [miss.node, miss.missing, miss.detail || miss.reason], open: () => open("node", miss.node) }));
  const more = found.nearMisses.length - shown.length;
  return [table(["node", "missing", ""], rows, { caption: "Near misses" }), more > 0 && el("p", { class: "quiet" }, `and ${number(more)} more`)];
}

function changes(found, open) {
  return table(["change", "then"], found.changes.map((change) => ({
    cells: [change.text, change.victims ? `${change.node}; ${change.victims.join(", ")} would go` : change.nodes > 1 ? `${change.node}, ${number(change.nodes)} nodes fit` : change.node],
  })), { caption: "Changes that would place the pod" });
}

function scores(found, open) {
  const plugins = Object.keys(found.weights);
  const bars = found.scores.map((one) => ({ label: one.node, values: plugins.map((name) => one.plugins[name] ?? 0) }));
  const why = found.ties > 1 ? `${found.ties} nodes are equally good; ties are broken at random.` : found.decidedBy ? `Ahead by ${found.margin} points, most of them from ${found.decidedBy}.` : "";
  return [stackedBars(plugins, bars, { open: (name) => open("node", name) }), why && el("p", {}, why)];
}

function wakes(found) {
  return table(["event", "registered by"], found.wakes.map((one) => ({ cells: [`${one.resource}: ${one.actions.join(", ")}`, one.plugin] })));
}

function attempts(found) {
  return table(["attempt", "when", "outcome"], found.attempts.map((one) => ({ cells: [String(one.number), `${age(one.time)} ago`, `${one.outcome}: ${one.message}`] })));
}

function raw(found) {
  const place = el("details", {}, el("summary", { class: "quiet" }, "Raw JSON"));
  place.addEventListener("toggle", () => { if (place.open && place.children.length === 1) place.append(el("pre", {}, JSON.stringify(found, null, 2))); });
  return el("div", {}, el("h2", {}, "Everything"), place);
}
