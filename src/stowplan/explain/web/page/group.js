// Groups of pods: all of them as a list, and one in detail with its domains as a map of tiles.

import { get, groupPath } from "./api.js";
import { funnel } from "./charts.js";
import { age, el, empty, middle, number, plural, real, redraw, show, table } from "./dom.js";
import { following } from "./follow.js";
import { raw } from "./object.js";
import { remedies } from "./remedies.js";
import { Tiles } from "./tiles.js";

const MOST_TRIED = 20; // of how many waiting groups the list says how many members would fit
const DOMAINS = 10; // how many domains are shown as bars at first

const kindOf = (group) => group.kind.toLowerCase();
const idOf = (group) => `${kindOf(group)}/${group.group}`;

// All groups

export async function groups(place, { stream, open }) {
  const tried = new Map(); // by group: what it was tried for, and what came of it
  let stopped = false;
  const draw = async () => {
    const found = await get("/podgroups");
    if (!found.items.length) {
      return redraw(
        place,
        el("h1", {}, "Groups"),
        empty(
          "No group of pods. With stowplan up --gangs, create one:",
          "kubectl apply -f training.yaml   # kind: PodGroup, docs/gangs.md",
        ),
      );
    }
    const waiting = found.items.filter((one) => one.state !== "placed");
    const paint = () => redraw(place, el("h1", {}, headline(found)), listOf(found.items, tried, open));
    paint();
    for (const one of waiting.filter((line) => line.state === "waiting").slice(0, MOST_TRIED)) {
      const key = [one.attempts, one.pods, one.scheduled, one.minimum].join();
      if (stopped || tried.get(idOf(one))?.key === key) continue;
      tried.set(idOf(one), { key, answer: await get(groupPath(idOf(one))).catch(() => null) });
      if (!stopped) paint();
    }
  };
  await draw();
  const off = following(stream, ["hello", "queue"], draw);
  return () => {
    stopped = true;
    off();
  };
}

function headline(found) {
  const count = (state) => found.items.filter((one) => one.state === state).length;
  const parts = [
    [count("waiting"), "waiting"],
    [count("incomplete"), "incomplete"],
    [count("placed"), "placed"],
  ];
  return `${plural(found.total, "group")}: ${parts
    .filter(([some]) => some)
    .map(([some, word]) => `${number(some)} ${word}`)
    .join(", ")}`;
}

function listOf(items, tried, open) {
  const rows = items.map((one) => ({
    key: idOf(one),
    cells: [
      el("span", { class: one.state === "placed" ? "good tight" : "bad tight" }, one.state),
      [el("b", { title: one.group }, middle(one.group, 48)), el("div", { class: "quiet" }, asked(one))],
      [
        meter(one.scheduled, 0, one.pods),
        el("div", { class: "quiet tight" }, `${number(one.scheduled)} of ${number(one.pods)}`),
      ],
      nowOf(one, tried.get(idOf(one))?.answer),
      el("span", { class: "tight" }, one.since ? age(one.since) : ""),
      one.attempts ? number(one.attempts) : "",
    ],
    open: () => open(kindOf(one), one.group),
  }));
  return table(["state", "group", "have a node", "now", "waits for", "attempts"], rows, {
    caption: "Groups of pods",
    numeric: [4, 5],
  });
}

function nowOf(line, answer) {
  if (line.state === "placed") return "";
  if (!answer)
    return el(
      "span",
      { class: "quiet" },
      line.heldBy || line.message || (line.state === "waiting" ? "trying…" : ""),
    );
  return [
    answer.fits === null
      ? null
      : meter(answer.scheduled, answer.fits, Math.max(answer.minimum, answer.scheduled + answer.fits)),
    el("div", {}, answer.reason),
  ];
}

const asked = (one) =>
  [
    one.policy === "gang"
      ? `gang of at least ${number(one.minimum)}${one.kind === "PodGroup" ? "" : " groups"}`
      : one.policy,
    one.topologyKey && `in one ${one.topologyKey}`,
    one.parent && `part of ${one.parent.split("/")[1]}`,
  ]
    .filter(Boolean)
    .join(" · ");

// A bar of members: those with a node, those that would find one now, and the rest.
function meter(placed, fitting, all) {
  const part = (count, background) =>
    el("i", { style: { width: `${(100 * count) / Math.max(all, 1)}%`, background } });
  return el("div", { class: "stack meter" }, part(placed, "var(--good)"), part(fitting, "var(--fill)"));
}

// One group

export async function group(place, { kind, name, open, close }) {
  if (!place.hasChildNodes()) show(place, el("p", { class: "quiet" }, `Explaining ${name}…`));
  const id = `${kind}/${name}`;
  const found = await get(groupPath(id));
  const waits = found.state !== "placed";
  show(
    place,
    el(
      "div",
      { class: "bar-row" },
      el("h1", { class: "grow" }, found.group),
      el("button", { onclick: close, "aria-label": "Close" }, "Close"),
    ),
    el("p", { class: "headline" }, found.headline),
    waits && helped(found, open),
    el(
      "p",
      { class: "quiet" },
      [...found.situation, ...found.waits, found.priority === null ? null : `priority ${found.priority}`]
        .filter(Boolean)
        .join(" · "),
    ),
    found.parent &&
      el(
        "p",
        {},
        "Part of ",
        el(
          "button",
          { class: "plain", onclick: () => open("compositepodgroup", found.parent) },
          found.parent,
        ),
      ),
    found.pods > 0 && members(found),
    await picture(found, id, open),
    found.parts.length > 0 && [
      el("h2", {}, "Its groups"),
      table(
        ["group", "state", "because"],
        found.parts.map((part) => ({
          cells: [part.group, part.state, part.reason],
          open: () => open(kindOf(part), part.group),
        })),
        { caption: "Parts" },
      ),
    ],
    waits && found.stoppedBy && stop(found.stoppedBy, open),
    waits && found.preemption && preemption(found.preemption, open),
    waits && found.message && [el("h2", {}, "The scheduler says"), el("p", {}, found.message)],
    memberList(found, open),
    raw(found),
  );
}

// What helps: first, with the commands.
function helped(found, open) {
  if (!found.changes.length) return found.remedy && el("p", {}, `Helped by: ${found.remedy}`);
  return [
    el("h2", {}, "Any one of these would place it (each tried on this state)"),
    remedies(found.changes, { open }),
  ];
}

function members(found) {
  const item = (background, text) =>
    el("li", {}, el("span", { class: "swatch", style: { background } }), text);
  const fitting = found.state === "placed" ? 0 : Math.min(found.fits ?? 0, found.pods - found.scheduled),
    rest = found.pods - found.scheduled - fitting;
  return el(
    "div",
    { "aria-label": "Members" },
    meter(found.scheduled, fitting, found.pods),
    el(
      "ul",
      { class: "legend" },
      item("var(--good)", `${number(found.scheduled)} with a node`),
      fitting > 0 && item("var(--fill)", `${number(fitting)} would fit now`),
      rest > 0 && item("var(--tile)", `${number(rest)} without room`),
    ),
  );
}

// The domains of a group: bars, and its nodes as tiles.
async function picture(found, id, open) {
  const tried = [...found.domains]
    .filter((one) => one.domain)
    .sort((one, other) => other.fits - one.fits || one.domain.localeCompare(other.domain));
  const [nodes, map] = await Promise.all([get("/nodes"), get(`${groupPath(id)}/map`)]).catch(() => [
    null,
    null,
  ]);
  const large =
    map && (map.domains.length || map.members.some(Boolean))
      ? `#/cluster?group=${encodeURIComponent(id)}~${encodeURI(id)}`
      : found.stoppedBy && `#/cluster?pod=${encodeURIComponent(found.stoppedBy.pod)}~${encodeURI(id)}`;
  const bars = tried.slice(0, DOMAINS).map((one) => [
    el("span", { class: "name", title: one.message }, one.domain),
    el(
      "span",
      { class: "track" },
      el("i", {
        style: {
          width: `${Math.min(100, (100 * one.fits) / found.needed)}%`,
          background: colourOf(one.fits, found.needed),
        },
      }),
    ),
    el("span", { class: "num" }, `${number(one.fits)} of ${number(found.needed)}`),
  ]);
  const more = found.domainCount - bars.length;
  return [
    tried.length > 0 && el("h2", {}, `How far it gets in each ${found.topologyKey ?? "domain"}`),
    map && nodes && map.domains.length > 0 && smallMap(nodes, mapOf(nodes, map, found), open),
    bars.length > 0 && el("div", { class: "bars" }, bars),
    more > 0 && tried.length > 0 && el("p", { class: "quiet" }, `and ${number(more)} more`),
    large && el("p", {}, el("a", { href: large }, "Show on the map")),
  ];
}

const colourOf = (fits, needed) =>
  fits >= needed ? "var(--good)" : fits > 0 ? "var(--fill-high)" : "var(--fill-full)";

function smallMap(nodes, drawn, open) {
  const canvas = el("canvas", {
    role: "img",
    "aria-label": "Domains as groups of tiles; the bars below have the same numbers",
    tabindex: "0",
  });
  const tiles = new Tiles(canvas, {
    onHover: (index) => {
      canvas.title = index < 0 ? "" : `${nodes.names[index]}: ${drawn.words(index)}`;
    },
    onOpen: (index) => open("node", nodes.names[index]),
  });
  tiles.set(drawn.groups, drawn.painter());
  return [el("div", { class: "tiles-frame small" }, canvas), legendOf(drawn)];
}

// What the map of a group has: tiles by domain, filled by how far the group gets there, or by where its members are.
export function mapOf(nodes, map, found) {
  const fits = new Map(found.domains.map((one) => [one.domain, one]));
  const placed = found.state === "placed" || !found.domains.length;
  const all = nodes.names.map((_, index) => index);
  const named = map.domains.map((name, place) => ({
    name,
    trial: fits.get(name),
    nodes: all.filter((index) => map.nodes[index] === place),
  }));
  const outside = all.filter((index) => map.nodes[index] < 0);
  const label = ({ name, trial, nodes: some }) => {
    const here = some.reduce((sum, index) => sum + map.members[index], 0);
    if (placed) return `${name}${here ? `: ${plural(here, "member")}` : ""}`;
    return trial ? `${name}: ${number(trial.fits)} of ${number(found.needed)} fit` : `${name}: not tried`;
  };
  const groups = [
    ...named.map((one) => ({ name: label(one), nodes: one.nodes, bare: true })),
    ...(outside.length
      ? [{ name: map.domains.length ? "in none of them" : "all nodes", nodes: outside }]
      : []),
  ];
  const trialOf = (index) => (map.nodes[index] < 0 ? null : named[map.nodes[index]].trial);
  const words = (index) => {
    const trial = trialOf(index);
    if (map.members[index]) return plural(map.members[index], "member");
    return placed || !trial ? "no member" : `${number(trial.fits)} of ${number(found.needed)}`;
  };
  const painter = () => {
    const good = real("--good"),
      some = real("--fill-high"),
      none = real("--fill-full"),
      taken = real("--fill");
    return (index) => {
      const trial = trialOf(index),
        look = {
          name: nodes.names[index],
          words: words(index),
          hatched: nodes.unschedulable[index],
          crossed: !nodes.ready[index],
        };
      if (placed || !trial) return { ...look, fill: map.members[index] ? 1 : 0, colour: taken };
      if (!trial.fits) return { ...look, fill: 1, colour: none };
      return {
        ...look,
        fill: Math.min(1, trial.fits / found.needed),
        colour: trial.fits >= found.needed ? good : some,
      };
    };
  };
  return { groups, words, painter, placed };
}

export function legendOf(drawn) {
  const item = (background, text) =>
    el("li", {}, el("span", { class: "swatch", style: { background } }), text);
  return el(
    "ul",
    { class: "legend" },
    drawn.placed
      ? [item("var(--fill)", "has members"), item("var(--tile)", "has none")]
      : [
          item("var(--good)", "all that are needed fit"),
          item("var(--fill-high)", "some fit: filled as far as it gets"),
          item("var(--fill-full)", "none fits"),
        ],
  );
}

function stop(stopped, open) {
  const steps = stopped.funnel.map((line) => ({ label: line.plugin, value: line.nodes, note: line.reason }));
  return el(
    "section",
    { "aria-label": "What stops it" },
    el("h2", {}, stopped.headline),
    el("p", {}, el("button", { class: "plain", onclick: () => open("pod", stopped.pod) }, stopped.pod)),
    steps.length ? funnel(stopped.nodes, steps) : el("p", {}, stopped.message),
  );
}

function preemption(tried, open) {
  const unit = (one) => {
    const [kind, ...rest] = one.unit.split("/");
    return rest.length ? { kind, name: rest.join("/") } : { kind: "", name: kind };
  };
  const link = (one) => {
    const { kind, name } = unit(one);
    return kind ? el("button", { class: "plain", onclick: () => open(kind, name) }, name) : name;
  };
  const does = tried.helps && tried.victimUnits;
  return el(
    "section",
    { class: "preemption", "aria-label": "Preemption" },
    el("h2", {}, "Preemption"),
    el("p", {}, tried.headline),
    does > 0 &&
      table(
        ["would go", "pods", "because"],
        tried.units.map((one) => ({ cells: [link(one), number(one.pods), one.why ?? ""] })),
        { caption: "Victims", numeric: [1] },
      ),
    tried.details.map((sentence) => el("p", { class: "quiet" }, sentence)),
  );
}

function memberList(found, open) {
  if (!found.members.length) return null;
  const rows = found.members.map((one) => ({
    cells: [one.pod, one.node ?? el("span", { class: "quiet" }, "none")],
    open: () => open("pod", one.pod),
  }));
  return el(
    "details",
    { open: rows.length <= 12 },
    el("summary", {}, `Members (${number(found.pods)})`),
    table(["pod", "node"], rows, { caption: "Members" }),
  );
}
