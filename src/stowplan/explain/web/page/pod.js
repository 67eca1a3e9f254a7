// One pod: its state in a sentence, then the evidence, then what would help.

import { get, podPath } from "./api.js";
import { funnel, stackedBars } from "./charts.js";
import { age, colour, el, middle, number, show, table } from "./dom.js";
import { objectOf, raw } from "./object.js";
import { remedies, stages } from "./remedies.js";
import { timeLine } from "./timeline.js";

export async function pod(place, { name, open, close }) {
  if (!place.hasChildNodes()) show(place, el("p", { class: "quiet" }, `Explaining ${name}…`));
  const [found, seen] = await Promise.all([
    get(podPath(name)),
    get(`${podPath(name)}/events`).catch(() => ({ items: [], incomplete: [] })),
  ]);
  const happened = timeLine(found, seen, (one) => linkTo(one, open));
  show(
    place,
    el(
      "div",
      { class: "bar-row" },
      el("h1", { class: "grow" }, found.pod),
      found.state === "pending" &&
        el("a", { class: "button", href: `#/try?pod=${encodeURIComponent(found.pod)}` }, "Edit and try"),
      el("button", { onclick: close, "aria-label": "Close" }, "Close"),
    ),
    el("p", { class: "headline" }, found.headline),
    found.incomplete.map((line) => el("p", { class: "incomplete" }, `incomplete: ${line}`)),
    helped(found, open),
    stages(found.stages),
    el("p", { class: "quiet" }, [...found.situation, ...facts(found)].join(" · ")),
    where(found, open),
    found.notes.map((note) => el("p", {}, [note.about, note.text].filter(Boolean).join(": "))),
    groupOf(found, open),
    found.funnel.length > 0 && [el("h2", {}, "Nodes ruled out"), funnel(found.nodes, stepsOf(found))],
    found.groupsOfNodes.length > 0 && [
      el("h2", {}, "Nodes by the one thing in the way"),
      nodeGroups(found, open),
    ],
    found.nearMisses.length > 0 && closest(found, open),
    found.scores.length > 0 && [el("h2", {}, "Points of the best nodes, by plugin"), scores(found, open)],
    found.why.map((sentence) => el("p", {}, sentence)),
    happened && [el("h2", {}, "What happened"), happened],
    found.state === "pending" &&
      found.preemption &&
      preemption(found.preemption, "Preemption", found.preemption.headline, open),
    found.evictions &&
      preemption(
        found.evictions.preemption ?? found.evictions,
        "Evicted for it",
        found.evictions.headline,
        open,
      ),
    found.evicted &&
      preemption(
        found.evicted.preemption ?? found.evicted,
        "Evicted",
        found.evicted.headline,
        open,
        found.evicted.by,
      ),
    found.wakes.length > 0 && [el("h2", {}, "Wakes it"), wakes(found)],
    found.state !== "gone" && objectOf(podPath(name), open),
    el("h2", {}, "Everything"),
    raw(found),
  );
}

// What helps: first, with the commands.
function helped(found, open) {
  const changes = found.changes.length > 0 && [
    el("h2", {}, "Any one of these would help (each tried on this state)"),
    remedies(found.changes, { open }),
  ];
  const sentence = found.remedy && !found.changes.length && el("p", {}, `Helped by: ${found.remedy}`);
  const none =
    found.state === "pending" &&
    !found.wouldGoTo &&
    !found.remedy &&
    found.funnel.length > 0 &&
    el("p", { class: "quiet" }, "No change was found that would place it.");
  const untried = found.untried.map((line) => el("p", { class: "quiet" }, line));
  return [changes, sentence, none, untried];
}

function where(found, open) {
  if (found.node)
    return el("p", {}, el("button", { class: "plain", onclick: () => open("node", found.node) }, found.node));
  const map = `#/cluster?pod=${encodeURIComponent(found.pod)}~pod/${encodeURI(found.pod)}`;
  return found.state !== "gone" && el("p", {}, el("a", { href: map }, "Show on the map"));
}

// Nodes that one thing rules out; those that the pod could mean are marked.
function nodeGroups(found, open) {
  const rows = found.groupsOfNodes.map((group) => ({
    cells: [
      group.meant ? el("b", {}, group.name) : group.name,
      group.text,
      group.examples?.[0]
        ? el(
            "button",
            { class: "plain tight", onclick: () => open("node", group.examples[0]) },
            group.examples[0],
          )
        : "",
    ],
  }));
  return table(["nodes", "in the way", "such as"], rows, { caption: "Nodes by the one thing in the way" });
}

function closest(found, open) {
  const heading = "Closest: only one thing in the way";
  if (!found.groupsOfNodes.length) return [el("h2", {}, heading), nearMisses(found, open)];
  return el("details", {}, el("summary", { class: "quiet" }, heading), nearMisses(found, open));
}

function facts(found) {
  const since =
    found.queue?.since && !found.node ? [`${age(found.queue.since)} in ${found.queue.place}`] : [];
  return found.priority === null ? since : [...since, `priority ${found.priority}`];
}

// The group of a pod: the pod waits for it, whatever it could do alone.
function groupOf(found, open) {
  const name = found.group?.group ?? found.podGroup;
  if (!name) return null;
  const kind = (found.group?.kind ?? "PodGroup").toLowerCase();
  return el(
    "p",
    { class: "group" },
    "Member of ",
    el("button", { class: "plain", onclick: () => open(kind, name) }, name),
    found.group ? `: ${found.group.headline}` : "",
  );
}

const stepsOf = (found) =>
  found.funnel.map((line) => ({ label: line.plugin, value: line.nodes, note: line.reason }));

// A pod by its name, or a group, which is named as one.
const linkTo = (name, open) =>
  name.startsWith("group ")
    ? el("button", { class: "plain", onclick: () => open("podgroup", name.slice(6)) }, name)
    : el("button", { class: "plain", onclick: () => open("pod", name) }, name);

// What preemption did or would do: where, whom, and why not on the other nodes.
function preemption(tried, heading, sentence, open, pods = tried.victims ?? []) {
  if (!sentence) return null;
  const steps = (tried.funnel ?? []).map((line) => ({
    label: line.reason,
    value: line.nodes,
    note: examplesOf(line),
  }));
  const accounted = steps.reduce((sum, step) => sum + step.value, tried.node ? 1 : 0);
  const complete = accounted === tried.nodes;
  return el(
    "section",
    { class: "preemption", "aria-label": heading },
    el("h2", {}, heading),
    el("p", {}, sentence),
    pods.length > 0 &&
      el(
        "p",
        {},
        pods.slice(0, 8).map((pod) => [linkTo(pod, open), " "]),
      ),
    steps.length > 0 &&
      funnel(
        complete ? tried.nodes : accounted,
        steps,
        complete ? "nodes" : "candidate nodes",
        [tried.node ?? "no node left", tried.chosenBy?.text].filter(Boolean).join(": "),
      ),
    tried.spared?.headline && el("p", { class: "quiet" }, tried.spared.headline),
  );
}

function examplesOf(line) {
  const shown = (line.examples ?? []).map((one) => (one.text ? `${one.node} (${one.text})` : one.node));
  return shown.join(", ") + (shown.length && shown.length < line.nodes ? ", …" : "");
}

function nearMisses(found, open) {
  const shown = found.nearMisses.slice(0, 8);
  const rows = shown.map((miss) => ({
    cells: [
      el("span", { class: "tight", title: miss.node }, middle(miss.node, 26)),
      miss.missing,
      miss.devices?.length ? devices(miss.devices) : miss.detail || miss.reason,
    ],
    open: () => open("node", miss.node),
  }));
  const more = found.nearMisses.length - shown.length;
  return [
    table(["node", "missing", ""], rows, { caption: "Near misses" }),
    more > 0 && el("p", { class: "quiet" }, `and ${number(more)} more`),
  ];
}

const WORDS = {
  selector: "for which a selector is false",
  taken: "taken",
  taint: "tainted",
  capacity: "without enough capacity",
  counter: "whose counters are used up",
  node: "not for this node",
  error: "that could not be looked at",
  usable: "free",
};

// The devices of a node, a square each, by what keeps them from a claim; the same in words below, and in full on request.
function devices(verdicts) {
  const causes = new Map();
  for (const one of verdicts) causes.set(one.cause, [...(causes.get(one.cause) ?? []), one]);
  const sorted = [...causes].sort(([, some], [, others]) => others.length - some.length);
  const shade = (cause) => colour(Object.keys(WORDS).indexOf(cause));
  const squares = sorted.flatMap(([cause, some]) =>
    some.map((one) =>
      el("i", { style: { background: shade(cause) }, title: `${one.device}: ${one.detail}` }),
    ),
  );
  const words = sorted.map(([cause, some]) =>
    el(
      "li",
      {},
      el("span", { class: "swatch", style: { background: shade(cause) } }),
      `${number(some.length)} ${WORDS[cause] ?? cause}`,
    ),
  );
  const full = el(
    "details",
    { onclick: (event) => event.stopPropagation() },
    el("summary", { class: "quiet" }, "device by device"),
    el(
      "ul",
      { class: "plain-list" },
      verdicts
        .slice(0, 64)
        .map((one) => el("li", {}, el("b", {}, one.device.split("/").at(-1)), ` ${one.detail}`)),
    ),
    verdicts.length > 64 && el("p", { class: "quiet" }, `and ${number(verdicts.length - 64)} more`),
  );
  return [el("div", { class: "devices" }, squares), el("ul", { class: "legend" }, words), full];
}

function scores(found, open) {
  const plugins = Object.keys(found.weights);
  const bars = found.scores.map((one) => ({
    label: one.node,
    values: plugins.map((name) => one.plugins[name] ?? 0),
  }));
  return stackedBars(plugins, bars, { open: (name) => open("node", name) });
}

function wakes(found) {
  const rows = found.wakes.map((one) => ({
    cells: [`${one.resource}: ${one.actions.join(", ")}`, one.plugin],
  }));
  return [
    found.awaits.length > 0 &&
      el(
        "ul",
        { class: "plain-list" },
        found.awaits.map((event) => el("li", {}, event)),
      ),
    el(
      "details",
      {},
      el("summary", { class: "quiet" }, "as plugins registered it"),
      table(["event", "registered by"], rows),
    ),
  ];
}
