// The cluster at a glance: every node a tile, filled by a resource, or coloured by who turns a waiting pod away.

import { get, groupPath, podPath } from "./api.js";
import { attention } from "./attention.js";
import { amount, el, empty, number, plural, real, rejection, show, table } from "./dom.js";
import { legendOf as groupLegend, mapOf } from "./group.js";
import { differences, nodesThen, past } from "./past.js";
import { Tiles } from "./tiles.js";

const MOST_USED = "most used";

export async function cluster(place, { stream, open, choose, query }) {
  let nodes = await loaded(place);
  if (!nodes) return null;
  if (!nodes.names.length) return show(place, empty("No node yet. Add one:", "kubectl create -f node.yaml"));
  const state = {
    resource: query.get("fill") || MOST_USED,
    key: query.get("by") ?? bestKey(nodes),
    pod: query.get("pod") || "",
    group: query.get("group") || "",
    map: null,
    drawn: null,
  };
  const canvas = el("canvas", {
    id: "tiles",
    tabindex: "0",
    role: "img",
    "aria-label": "Nodes of the cluster as tiles; the table below has the same numbers",
  });
  const tip = el("div", { id: "tip", class: "tip", hidden: true });
  const legend = el("ul", { class: "legend" });
  const numbers = el("details", {}, el("summary", { class: "quiet" }, "The same as a table"));
  const heading = el("p", { class: "quiet", id: "heading" });
  let moment = null; // the past that is shown
  let before = null; // an earlier moment that it is compared with
  const drawn = () => (moment ? nodesThen(nodes, moment) : nodes);
  const tiles = new Tiles(canvas, {
    onHover: (index, event) => hover(tip, drawn(), state, index, event),
    onOpen: (index) => open("node", drawn().names[index]),
  });
  const refresh = () => {
    const of = drawn();
    state.changes = before
      ? differences(of, before, (from, index) => share(from, state.resource, index))
      : null;
    heading.textContent = sentence(of, state);
    show(legend, legendOf(of, state));
    if (state.drawn) tiles.set(state.drawn.groups, state.drawn.painter());
    else tiles.set(groupsOf(of, state.key), painter(of, state));
  };
  const usage = !state.pod && !state.group;
  const slider = past({
    at: query.get("at"),
    from: query.get("from"),
    show: (found, earlier) => {
      moment = found;
      before = earlier;
      place.classList.toggle("then", found !== null);
      refresh();
    },
    chosen: (time, from) => choose({ at: time, from }),
  });
  const strip = usage
    ? attention(stream, {
        open,
        fill: (resource) => {
          state.resource = resource;
          /** @type {HTMLSelectElement} */ (document.getElementById("resource")).value = resource;
          refresh();
          choose({ fill: resource });
        },
        loaded: (found) => slider.update(found.trend.times),
      })
    : null;
  numbers.addEventListener("toggle", () => {
    if (numbers.open) show(numbers, numbers.firstChild, numbersOf(nodes, state));
  });
  const choice = (label, name, parameter, values) => {
    const select = el(
      "select",
      { id: name },
      values.map((value) =>
        el("option", { value, selected: value === state[name] }, value || "all together"),
      ),
    );
    select.addEventListener("change", () => {
      state[name] = select.value;
      refresh();
      choose({ [parameter]: select.value });
    });
    return el("label", {}, `${label} `, select);
  };
  show(
    place,
    strip?.strip,
    el(
      "div",
      { class: "bar-row" },
      state.group
        ? null
        : [
            choice("Group by", "key", "by", [...nodes.keys, ""]),
            state.pod ? null : choice("Fill", "resource", "fill", [MOST_USED, ...nodes.resources]),
          ],
      state.group
        ? el(
            "span",
            {},
            "Where does ",
            el(
              "a",
              { href: `#/cluster?group=${encodeURIComponent(state.group)}~${encodeURI(state.group)}` },
              state.group.split("/").slice(1).join("/"),
            ),
            " fit? ",
            el(
              "button",
              {
                onclick: () => {
                  location.hash = "#/cluster";
                },
              },
              "Show usage",
            ),
          )
        : null,
      state.pod
        ? el(
            "span",
            {},
            "Who takes ",
            el("a", { href: `#/pod/${state.pod}` }, state.pod),
            "? ",
            el(
              "button",
              {
                onclick: () => {
                  location.hash = "#/cluster";
                },
              },
              "Show usage",
            ),
          )
        : null,
      el("span", { class: "grow" }),
      heading,
    ),
    legend,
    usage && slider.row,
    el("div", { class: "tiles-frame" }, canvas),
    numbers,
    tip,
  );
  if (state.pod) state.map = await get(`${podPath(state.pod)}/map`);
  const look = async () => {
    const [found, map] = await Promise.all([
      get(groupPath(state.group)),
      get(`${groupPath(state.group)}/map`),
    ]);
    state.drawn = mapOf(nodes, map, found);
    state.reason = found.reason;
  };
  if (state.group) await look();
  refresh();
  const off = stream.on("nodes", async (change) => {
    if (change.reload) {
      nodes = await get("/nodes");
      if (state.group) await look();
    } else apply(nodes, change);
    refresh();
  });
  const select = () => {
    tiles.selected = drawn().names.indexOf(decodeURI(location.hash).split("~node/")[1] ?? "");
    tiles.draw();
  };
  window.addEventListener("hashchange", select);
  select();
  const theme = window.matchMedia("(prefers-color-scheme: dark)");
  theme.addEventListener("change", refresh);
  return () => {
    off();
    strip?.stop();
    window.removeEventListener("hashchange", select);
    theme.removeEventListener("change", refresh);
  };
}

// All nodes; none, and a sentence instead, for people who may not list them or have none yet.
async function loaded(place) {
  try {
    const nodes = await get("/nodes");
    if (nodes.names.length) return nodes;
    show(place, empty("No node yet. Add one:", "kubectl create -f node.yaml"));
  } catch (error) {
    if (error.code !== 403) throw error;
    show(
      place,
      el(
        "div",
        { class: "empty" },
        el("p", {}, "You may not list nodes, so there is no map of the cluster."),
        el("p", {}, el("a", { href: "#/pending" }, "Pending"), " explains the pods that you may see."),
      ),
    );
  }
  return null;
}

// Figures and states of nodes that have changed.
function apply(nodes, change) {
  const put = (columns, values, rows) => {
    for (const [name, column] of Object.entries(values)) {
      if (columns[name]) rows.forEach((row, index) => (columns[name][row] = column[index]));
    }
  };
  if (change.requested) put(nodes.requested, change.requested, change.index);
  for (const [driver, { index, requested }] of Object.entries(change.devices ?? {}))
    put(nodes.requested, { [driver]: requested }, index);
  if (!change.states) return;
  const { index, unschedulable, ready, allocatable } = change.states;
  put(nodes, { unschedulable, ready }, index);
  put(nodes.allocatable, allocatable, index);
}

// The label that splits the cluster best: whose values differ most in how full their nodes are. The first of the
// usual ones (zone, region) if no other explains clearly more.
export function bestKey(nodes) {
  const fills = nodes.names.map((_, index) => share(nodes, MOST_USED, index));
  const [first = "", ...others] = nodes.keys;
  const explained = (key) => (key ? shareExplained(fills, nodes.labels[key]) : 0);
  return others.reduce((best, key) => (explained(key) > explained(best) + 0.2 ? key : best), first);
}

// The part of the variance of the values that groups explain, adjusted for their number: many explain anything.
function shareExplained(fills, { values, index }) {
  const sums = values.map(() => [0, 0]);
  let all = 0;
  let squares = 0;
  fills.forEach((fill, row) => {
    sums[index[row]][0] += 1;
    sums[index[row]][1] += fill;
    all += fill;
    squares += fill * fill;
  });
  const groups = sums.filter(([count]) => count);
  const degrees = fills.length - groups.length;
  const total = squares - (all * all) / fills.length;
  if (groups.length < 2 || groups.length > 24 || degrees <= 0 || total < 1e-9) return 0;
  const rest = squares - groups.reduce((sum, [count, of]) => sum + (of * of) / count, 0);
  return 1 - rest / degrees / (total / (fills.length - 1));
}

export function groupsOf(nodes, key) {
  const all = nodes.names.map((_, index) => index);
  const column = nodes.labels[key];
  if (!column) return [{ name: "all nodes", nodes: all }];
  return column.values.map((name, value) => ({
    name,
    nodes: all.filter((index) => column.index[index] === value),
  }));
}

export function share(nodes, resource, index) {
  if (resource === MOST_USED) return Math.max(0, ...nodes.resources.map((name) => share(nodes, name, index)));
  const allocatable = nodes.allocatable[resource]?.[index] ?? 0;
  return allocatable ? nodes.requested[resource][index] / allocatable : 0;
}

function painter(nodes, state) {
  if (state.map) {
    const colours = state.map.legend.map((_, index) => real(rejection(index)));
    const good = real("--good");
    return (index) => ({
      fill: 1,
      colour: state.map.nodes[index] < 0 ? good : colours[state.map.nodes[index]],
      ...stateOf(nodes, index),
      words: state.map.nodes[index] < 0 ? "fits" : state.map.legend[state.map.nodes[index]].plugin,
    });
  }
  if (state.changes) return changePainter(nodes, state.changes);
  const low = real("--fill"),
    high = real("--fill-high"),
    full = real("--fill-full");
  return (index) => {
    const fill = share(nodes, state.resource, index);
    const absent = state.resource !== MOST_USED && !nodes.allocatable[state.resource]?.[index];
    return {
      fill,
      colour: fill >= 0.98 ? full : fill >= 0.8 ? high : low,
      absent,
      ...stateOf(nodes, index),
      words: absent ? "none" : `${Math.round(100 * fill)} %`,
    };
  };
}

// Between two moments: filled by how much more or less of the node is requested.
const LITTLE = 0.005; // half a percent is the step in which moments are kept
function changePainter(nodes, changes) {
  const more = real("--fill-high"),
    less = real("--fill"),
    fresh = real("--text");
  return (index) => {
    const change = changes[index];
    const percent = Math.round(100 * Math.abs(change ?? 0));
    return {
      ...stateOf(nodes, index),
      fill: change === null ? 1 : Math.abs(change) <= LITTLE ? 0 : Math.max(0.08, Math.abs(change)),
      colour: change === null ? fresh : change > 0 ? more : less,
      words: change === null ? "new" : percent ? `${percent} % ${change > 0 ? "more" : "less"}` : "as before",
    };
  };
}

export const stateOf = (nodes, index) => ({
  name: nodes.names[index],
  hatched: nodes.unschedulable[index],
  crossed: !nodes.ready[index],
});

function legendOf(nodes, state) {
  const item = (background, text) =>
    el("li", {}, el("span", { class: "swatch", style: { background } }), text);
  if (state.drawn) return [...groupLegend(state.drawn).childNodes];
  if (state.changes) {
    const gone = state.changes.some((change) => change === null);
    return [
      item("var(--fill-high)", `more ${state.resource} requested`),
      item("var(--fill)", "less"),
      item("var(--tile)", "as before"),
      gone && item("var(--text)", "new node"),
    ];
  }
  if (!state.map) {
    return [
      item("var(--fill)", "below 80 %"),
      item("var(--fill-high)", "80 % and more"),
      item("var(--fill-full)", "full"),
      state.resource !== MOST_USED &&
        nodes.allocatable[state.resource]?.some((value) => !value) &&
        el("li", { class: "quiet" }, `outline: has no ${state.resource}`),
      nodes.unschedulable.some(Boolean) && el("li", { class: "quiet" }, "hatched: cordoned"),
      nodes.ready.some((value) => !value) && el("li", { class: "quiet" }, "crossed: not ready"),
    ];
  }
  const fits = state.map.nodes.filter((code) => code < 0).length;
  return [
    ...state.map.legend.map((line, index) =>
      item(`var(${rejection(index)})`, `${number(line.nodes)} ${line.plugin}: ${line.reason}`),
    ),
    item("var(--good)", `${number(fits)} would take it`),
  ];
}

function sentence(nodes, state) {
  const count = plural(nodes.names.length, "node");
  if (state.drawn) return `${count} · ${state.reason}`;
  if (state.map) return count;
  const sum = (column) => (column ?? []).reduce((total, value) => total + value, 0);
  const used = (resource) => {
    const has = sum(nodes.allocatable[resource]);
    return {
      resource,
      has,
      taken: sum(nodes.requested[resource]),
      share: has ? sum(nodes.requested[resource]) / has : 0,
    };
  };
  const most = nodes.resources.map(used).reduce((one, other) => (other.share > one.share ? other : one));
  if (nodes.then) return `${count} then`;
  const { resource, has, taken, share } = state.resource === MOST_USED ? most : used(state.resource);
  return `${count} · ${amount(resource, taken)} of ${amount(resource, has)} ${resource} requested (${Math.round(100 * share)} %)`;
}

function hover(tip, nodes, state, index, event) {
  tip.hidden = index < 0;
  if (index < 0) return;
  const verdict = state.map && state.map.nodes[index] >= 0 ? state.map.legend[state.map.nodes[index]] : null;
  show(
    tip,
    el("b", {}, nodes.names[index]),
    ...nodes.resources
      .filter((name) => nodes.allocatable[name][index])
      .map((name) =>
        el(
          "div",
          {},
          nodes.then
            ? `${name}: ${Math.round(100 * nodes.requested[name][index])} % requested`
            : `${name}: ${amount(name, nodes.requested[name][index])} of ${amount(name, nodes.allocatable[name][index])}`,
        ),
      ),
    nodes.unschedulable[index] ? el("div", {}, "cordoned") : null,
    nodes.ready[index] ? null : el("div", { class: "bad" }, "not ready"),
    state.drawn ? el("div", {}, state.drawn.words(index)) : null,
    verdict
      ? el("div", { class: "bad" }, `${verdict.plugin}: ${verdict.reason}`)
      : state.map
        ? el("div", { class: "good" }, "would take the pod")
        : null,
  );
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 380)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - 160)}px`;
}

function numbersOf(nodes, state) {
  const rows = groupsOf(nodes, state.key).map((group) => ({
    cells: [
      group.name || "(none)",
      number(group.nodes.length),
      ...nodes.resources.map((name) => {
        const sum = (column) => group.nodes.reduce((total, index) => total + column[index], 0);
        return `${amount(name, sum(nodes.requested[name]))} of ${amount(name, sum(nodes.allocatable[name]))}`;
      }),
    ],
  }));
  return table([state.key || "group", "nodes", ...nodes.resources], rows, {
    caption: "Requested by group",
    numeric: [1],
  });
}
