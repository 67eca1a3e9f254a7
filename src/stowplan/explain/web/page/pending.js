// Pending: causes, not pods. A row opens in place: what helps first, then the pods.

import { get, groupPath, podPath, workloadPath } from "./api.js";
import { age, el, empty, middle, number, plural, redraw } from "./dom.js";
import { following } from "./follow.js";
import { remedies } from "./remedies.js";

const PARTS = [
  ["Causes", "causes"],
  ["Not decided by this scheduler", "elsewhere"],
  ["On a node and not running", "notStarted"],
  ["Not created", "notCreated"],
];
const ASK_AGAIN = 10000; // milliseconds for which the changes of an open cause are kept
const SHOWN = 100; // pods of a cause that are listed at first

export async function pending(place, { stream, open, choose, query }) {
  const state = {
    namespace: query.get("namespace") ?? "",
    text: query.get("filter") ?? "",
    opened: new Set(query.get("cause") ? [query.get("cause")] : []),
    all: new Set(), // causes of which all pods are listed
    found: null,
    lines: new Map(),
    offered: new Map(), // by cause that has no explanation: the changes that its details offer
  };
  const list = el("div");
  const heading = el("h1", {}, "Pending");
  const unread = el("div");
  const filters = filterRow(state, () => {
    choose({ namespace: state.namespace || null, filter: state.text || null });
    draw();
  });
  const draw = () => {
    const { found } = state;
    heading.textContent = found.headline;
    unread.replaceChildren(
      ...found.incomplete.map((line) => el("p", { class: "incomplete" }, `incomplete: ${line}`)),
    );
    filters.update(namespacesOf(found));
    const parts = PARTS.map(([title, field]) => [
      title,
      found[field].filter((cause) => matches(cause, state)),
    ]);
    const shown = parts.filter(([, causes]) => causes.length > 0);
    const any = PARTS.some(([, field]) => found[field].length > 0);
    redraw(
      list,
      shown.map(([title, causes]) => [
        title !== "Causes" && el("h2", {}, title),
        el(
          "ul",
          { class: "causes", "aria-label": title },
          causes.map((cause) => rowOf(cause, state, open, draw)),
        ),
      ]),
      !any && empty(`${found.headline.replace(/\.?$/, ".")} Create one:`, "kubectl run hello --image=nginx"),
      any && !shown.length && el("p", { class: "quiet" }, "No cause matches the filter."),
    );
  };
  const load = async () => {
    const [found, pods] = await Promise.all([get("/pending"), get("/pods?state=waiting&limit=500")]);
    state.found = found;
    state.lines = new Map(pods.items.map((one) => [one.pod, one]));
    draw();
  };
  await load();
  place.replaceChildren(heading, unread, filters.row, list);
  return following(stream, ["queue"], load);
}

const namespaceOf = (cause) => cause.name.split("/")[0];
const namespacesOf = (found) =>
  [...new Set(PARTS.flatMap(([, field]) => found[field].map(namespaceOf)))].sort();

// Everything that is said of a cause and its pods, for the filter.
function matches(cause, state) {
  if (state.namespace && namespaceOf(cause) !== state.namespace) return false;
  const text = state.text.toLowerCase();
  if (!text) return true;
  const said = [cause.name, cause.reason, cause.help, cause.scheduler ?? ""];
  if (said.some((one) => one.toLowerCase().includes(text))) return true;
  return cause.pods.some((key) => {
    const line = state.lines.get(key);
    return `${key} ${line?.owner ?? ""} priority=${line?.priority ?? ""}`.toLowerCase().includes(text);
  });
}

function filterRow(state, changed) {
  const namespace = el("select", { id: "namespace" });
  const text = el("input", {
    type: "search",
    id: "filter",
    placeholder: "cause, pod, owner, priority=10",
    "aria-label": "Filter",
    value: state.text,
  });
  let typed = null;
  namespace.addEventListener("change", () => {
    state.namespace = namespace.value;
    changed();
  });
  text.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => {
      state.text = text.value.trim();
      changed();
    }, 200);
  });
  const row = el(
    "div",
    { class: "bar-row" },
    el("label", {}, "Namespace ", namespace),
    el("label", {}, "Filter ", text),
  );
  const update = (names) => {
    const all = ["", ...new Set([...names, ...(state.namespace ? [state.namespace] : [])])];
    if (
      namespace.options.length === all.length &&
      all.every((name, index) => namespace.options[index].value === name)
    )
      return;
    namespace.replaceChildren(
      ...all.map((name) => el("option", { value: name, selected: name === state.namespace }, name || "all")),
    );
  };
  return { row, update };
}

// A cause: one line, and when opened what helps and the pods.
function rowOf(cause, state, open, draw) {
  const isOpen = state.opened.has(cause.name);
  const toggle = () => {
    if (isOpen) state.opened.delete(cause.name);
    else state.opened.add(cause.name);
    draw();
  };
  const line = el(
    "div",
    {
      class: "link line",
      role: "button",
      tabindex: "0",
      "data-key": cause.name,
      "aria-expanded": String(isOpen),
      onclick: toggle,
      onkeydown: (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          toggle();
        }
      },
    },
    el("span", { class: "num count" }, number(cause.count)),
    el("span", {}, el("b", { title: cause.name }, middle(cause.name, 56)), " ", el("span", {}, cause.reason)),
  );
  return el("li", { class: isOpen ? "open" : null }, line, isOpen && body(cause, state, open, draw));
}

// Details of a cause that is not explained here: of a group, a workload or a gated pod.
function detailsOf(cause) {
  if (cause.group) return groupPath(`${cause.group.kind.toLowerCase()}/${cause.group.group}`);
  if (cause.workload) return workloadPath(cause.workload.split("/")[0], cause.name);
  return cause.pods.length > 0 && podPath(cause.pods[0]);
}

function changesOf(cause, state, draw) {
  if (cause.explanation) return cause.explanation.changes;
  const path = detailsOf(cause);
  const before = state.offered.get(cause.name) ?? { changes: [], asked: 0 };
  if (path && Date.now() - before.asked > ASK_AGAIN) {
    state.offered.set(cause.name, { ...before, asked: Date.now() });
    get(path)
      .then((found) => {
        state.offered.set(cause.name, { changes: found.changes, asked: Date.now() });
        if (JSON.stringify(found.changes) !== JSON.stringify(before.changes)) draw();
      })
      .catch(() => {}); // the row says in a sentence what helps
  }
  return before.changes;
}

function body(cause, state, open, draw) {
  const changes = changesOf(cause, state, draw);
  const first = cause.pods[0];
  const map = first && !cause.group && cause.explanation?.funnel.length > 0;
  const opened = cause.group
    ? () => open(cause.group.kind.toLowerCase(), cause.group.group)
    : cause.workload
      ? () => open(cause.workload.split("/")[0], cause.name)
      : first && (() => open("pod", first));
  return el(
    "div",
    { class: "cause" },
    changes.length ? remedies(changes, { most: 3, open }) : el("p", {}, "Helped by: ", cause.help),
    el(
      "p",
      {},
      opened &&
        el(
          "button",
          { onclick: opened },
          cause.group ? "Explain the group" : cause.workload ? "Explain the workload" : "Explain",
        ),
      " ",
      map &&
        el(
          "a",
          { href: `#/cluster?pod=${encodeURIComponent(first)}~pod/${encodeURI(first)}` },
          "Show on the map",
        ),
    ),
    podsOf(cause, state, open, draw),
  );
}

function podsOf(cause, state, open, draw) {
  const shown = state.all.has(cause.name) ? cause.pods : cause.pods.slice(0, SHOWN);
  const rows = shown.map((key) => {
    const line = state.lines.get(key);
    const facts = line
      ? [line.priority ? `priority ${line.priority}` : null, `${age(line.created)} old`, line.owner].filter(
          Boolean,
        )
      : [];
    return el(
      "li",
      {},
      el(
        "button",
        { class: "plain", "data-key": `${cause.name} ${key}`, onclick: () => open("pod", key) },
        key,
      ),
      facts.length > 0 && el("span", { class: "quiet" }, ` ${facts.join(" · ")}`),
    );
  });
  const rest = cause.pods.length - shown.length;
  const more = () => {
    state.all.add(cause.name);
    draw();
  };
  return [
    el("p", { class: "quiet" }, plural(cause.count, "pod")),
    el("ul", { class: "pods" }, rows),
    rest > 0 && el("button", { onclick: more }, `Show ${number(rest)} more`),
  ];
}
