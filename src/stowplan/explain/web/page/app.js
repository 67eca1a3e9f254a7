// The frame: places by address, details beside them, search, the line on top, the keyboard.

import { ApiError, Stream, get } from "./api.js";
import { cluster } from "./cluster.js";
import { el, empty, number, show, table } from "./dom.js";
import { group, groups } from "./group.js";
import { decisions, pending, queue } from "./lists.js";
import { node } from "./node.js";
import { pod } from "./pod.js";

const PLACES = { cluster, pending, groups, queue, decisions };
const DETAILS = { pod, node, podgroup: group, compositepodgroup: group };

const place = document.getElementById("place");
const beside = document.getElementById("beside");
const status = document.getElementById("status");
const lost = document.getElementById("lost");
const input = document.getElementById("search-text");
const results = document.getElementById("search-results");

const stream = new Stream();
let current = "";
let leave = null;

// Addresses: #/cluster?by=…, #/pending, …; details are added as ~pod/ns/name, ~podgroup/ns/name or ~node/name and can be sent as they are.
function parse() {
  const [where, detail = ""] = decodeURI(location.hash.slice(1) || "/cluster").split("~");
  const [path, query = ""] = where.split("?");
  const name = path.split("/")[1] || "cluster";
  if (name in DETAILS) return { name: "cluster", query: new URLSearchParams(), detail: path.slice(1) };
  return { name: name in PLACES ? name : "cluster", query: new URLSearchParams(query), detail };
}

function open(kind, name) {
  const [where] = location.hash.slice(1).split("~");
  const base = where.split("/")[1] in DETAILS ? "/cluster" : where || "/cluster";
  location.hash = `${base}~${kind}/${encodeURI(name)}`;
}

function close() {
  location.hash = location.hash.slice(1).split("~")[0] || "/cluster";
  place.focus();
}

async function go() {
  const { name, query, detail } = parse();
  const key = `${name}?${query}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${name}` && !link.classList.contains("brand"))
      link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (key !== current) {
    current = key;
    if (leave) leave();
    leave = null;
    const inner = fresh(place);
    // A place may have drawn its frame and wait for the rest: that is not to be replaced.
    const words = setTimeout(() => {
      if (!inner.hasChildNodes()) show(inner, el("p", { class: "quiet" }, "Loading…"));
    }, 300);
    shown(inner, () => PLACES[name](inner, { stream, open, query })).then((left) => {
      clearTimeout(words);
      if (current === key && place.contains(inner)) leave = left || null;
      else if (left) left();
    });
  }
  const [kind, ...rest] = detail.split("/");
  beside.hidden = !(kind in DETAILS);
  if (kind in DETAILS) {
    const inner = fresh(beside);
    await shown(inner, () => DETAILS[kind](inner, { kind, name: rest.join("/"), open, close }));
  }
}

// A new box for what is shown: an answer that comes late is drawn where nobody looks any more.
function fresh(where) {
  const inner = el("div", { class: "inner" });
  show(where, inner);
  where.scrollTop = 0;
  return inner;
}

async function shown(where, draw) {
  try {
    return await draw();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    show(where, empty(error.code === 404 ? `Not found: ${error.message}` : error.message));
    return null;
  }
}

const clock = (time) => time.toLocaleTimeString([], { hour12: false });

stream.on("hello", (hello) => {
  const scheduler = hello.scheduler;
  status.title = `${hello.cluster}, ${scheduler.name} ${scheduler.version}, decides as kube-scheduler ${scheduler.release}, profiles ${scheduler.profiles.join(", ")}`;
  show(
    status,
    el(
      "span",
      {},
      `${hello.cluster} · ${scheduler.name} ${scheduler.release} · ${scheduler.leader ? "leading" : "standby"} · `,
    ),
    hello.pods ? el("b", {}, `${number(hello.pods.waiting)} waiting`) : null,
    hello.rate === null ? "" : ` · ${hello.rate} pods/s`,
    hello.time ? ` · ${clock(new Date(hello.time))}` : "",
  );
});
stream.on("lost", (since) => {
  document.body.classList.add("lost");
  lost.hidden = false;
  lost.textContent = `Connection lost at ${clock(since)}. What you see is from then; trying again.`;
});
stream.on("back", () => {
  document.body.classList.remove("lost");
  lost.hidden = true;
  current = "";
  go();
});

// Search: pods by name, label, node or cause, groups and nodes by name.
let asked = 0;
let chosen = -1;
let names = null;
async function search() {
  const text = input.value.trim();
  const number_ = ++asked;
  if (!text) {
    results.hidden = true;
    return;
  }
  const asking = encodeURIComponent(text);
  const [pods, found] = await Promise.all([
    get(`/pods?limit=12&search=${asking}`),
    get(`/podgroups?limit=6&search=${asking}`),
  ]);
  names ??= get("/nodes").then(
    (nodes) => nodes.names,
    () => [],
  );
  const nodes = (await names).filter((name) => name.toLowerCase().includes(text.toLowerCase())).slice(0, 6);
  if (number_ !== asked) return;
  const items = [
    ...found.items.map((one) => [one.kind.toLowerCase(), one.group, `group, ${one.state}`]),
    ...pods.items.map((one) => ["pod", one.pod, one.node || one.state]),
    ...nodes.map((name) => ["node", name, "node"]),
  ];
  chosen = items.length ? 0 : -1;
  show(
    results,
    items.length
      ? items.map(([kind, name, what], index) =>
          el(
            "li",
            {
              role: "option",
              "aria-selected": String(index === 0),
              "data-kind": kind,
              "data-name": name,
              onmousedown: () => pick(kind, name),
            },
            el("span", {}, name),
            el("span", { class: "quiet" }, what),
          ),
        )
      : el("li", { class: "quiet" }, "Nothing found."),
  );
  results.hidden = false;
}

function pick(kind, name) {
  results.hidden = true;
  input.value = "";
  input.blur();
  open(kind, name);
}

let typed = null;
input.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(search, 120);
});
input.addEventListener("blur", () =>
  setTimeout(() => {
    results.hidden = true;
  }, 150),
);
input.addEventListener("keydown", (event) => {
  const options = [...results.querySelectorAll("[role=option]")];
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    chosen = Math.max(0, Math.min(options.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
    options.forEach((option, index) => option.setAttribute("aria-selected", String(index === chosen)));
    event.preventDefault();
  } else if (event.key === "Escape") input.blur();
});
document.getElementById("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (results.hidden) await search();
  const option = results.querySelectorAll("[role=option]")[chosen];
  if (option) pick(option.dataset.kind, option.dataset.name);
});

// The keyboard: one place for all of it, and `?` tells.
const KEYS = [
  ["/", "search pods, groups, nodes, labels, causes"],
  ["1 to 5", "Cluster, Pending, Groups, Queue, Decisions"],
  ["j k", "next and previous line"],
  ["Enter", "open what is selected"],
  ["arrows", "move between tiles and search results"],
  ["Esc", "close what is open"],
  ["?", "this list"],
];
const help = el(
  "dialog",
  { "aria-label": "Keys" },
  el("h1", {}, "Keys"),
  table(
    ["key", ""],
    KEYS.map(([key, what]) => ({ cells: [el("kbd", {}, key), what] })),
  ),
  el("p", {}, el("button", { onclick: () => help.close() }, "Close")),
);
document.body.append(help);
document.getElementById("keys").addEventListener("click", () => help.showModal());

function step(by) {
  const lines = [...place.querySelectorAll("tr.link, li.link")];
  if (!lines.length) return;
  const now = lines.indexOf(document.activeElement);
  const next = lines[Math.max(0, Math.min(lines.length - 1, now < 0 ? 0 : now + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (
    event.target === input ||
    event.target instanceof HTMLSelectElement ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    help.open
  )
    return;
  const names = Object.keys(PLACES);
  if (event.key === "/") {
    input.focus();
    event.preventDefault();
  } else if (event.key === "?") help.showModal();
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (names[Number(event.key) - 1]) location.hash = `/${names[Number(event.key) - 1]}`;
  else if (event.key === "Escape" && !beside.hidden) close();
});

window.addEventListener("hashchange", go);
go();
