// The frame: views by address, details beside them, the line on top, and what happens when the server is not heard.

import { parse, withChoices, withDetail, withOnly, withoutDetail } from "./address.js";
import { ApiError, Stream } from "./api.js";
import { cluster } from "./cluster.js";
import { decisions } from "./decisions.js";
import { clock, el, empty, number, show } from "./dom.js";
import { group, groups } from "./group.js";
import { keyboard } from "./keys.js";
import { node } from "./node.js";
import { pending } from "./pending.js";
import { pod } from "./pod.js";
import { queue } from "./queue.js";
import { search } from "./search.js";
import { sharing } from "./share.js";
import { tryIt } from "./try.js";
import { workload } from "./workload.js";

const PLACES = { cluster, pending, groups, queue, decisions, try: tryIt };
const WORKLOADS = ["deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob"];
const DETAILS = {
  pod,
  node,
  podgroup: group,
  compositepodgroup: group,
  ...Object.fromEntries(WORKLOADS.map((kind) => [kind, workload])),
};
const TITLES = {
  cluster: "Cluster",
  pending: "Pending",
  groups: "Groups",
  queue: "Queue",
  decisions: "Decisions",
  try: "Try it",
};

const EVERY = 10000; // milliseconds between two drawings of a workload

const place = document.getElementById("place");
const beside = document.getElementById("beside");
const status = document.getElementById("status");
const lost = document.getElementById("lost");
const age = document.getElementById("age");

const stream = new Stream();
let current = ""; // the view that is drawn, with its choices
let leave = null;
let detailed = ""; // what is open beside it
let opener = null; // the key of the line that opened it

// Views and details by address

function wanted() {
  const { path, query, detail } = parse(location.hash);
  const name = path.split("/")[0];
  if (name in DETAILS) return { name: "cluster", query: new URLSearchParams(), detail: path };
  return { name: name in PLACES ? name : "cluster", query, detail };
}

function open(kind, name) {
  const line = /** @type {HTMLElement | null} */ (document.activeElement?.closest?.("[data-key]"));
  if (line && place.contains(line)) opener = line.dataset.key;
  const base = location.hash.slice(1).split("~")[0].split("/")[1] in DETAILS ? "#/cluster" : location.hash;
  location.hash = withDetail(base, kind, name);
}

// Closing leads back to the line that was opened.
function close() {
  if (beside.hidden) return;
  location.hash = withoutDetail(location.hash);
  const line = opener === null ? null : place.querySelector(`[data-key="${CSS.escape(opener)}"]`);
  /** @type {HTMLElement} */ (line ?? place).focus();
}

// Keep a choice of a view in the address; the view has drawn it already.
function choose(choices) {
  history.pushState(null, "", withChoices(location.hash, choices));
  const { name, query } = wanted();
  current = keyOf(name, query);
}

// Keep all choices of a view in the address, in place of the ones before.
function keep(choices) {
  history.replaceState(null, "", withOnly(location.hash, choices));
  const { name, query } = wanted();
  current = keyOf(name, query);
}

const keyOf = (name, query) => `${name}?${query}`;

async function go() {
  const { name, query, detail } = wanted();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${name}` && !link.classList.contains("brand"))
      link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (keyOf(name, query) !== current) view(name, query);
  await details(detail);
  entitle(name, detail);
}

function view(name, query) {
  const key = keyOf(name, query);
  current = key;
  if (leave) leave();
  leave = null;
  const before = [...place.childNodes];
  const inner = fresh(place);
  // A view may have drawn its frame and wait for the rest: that is not to be replaced.
  const words = setTimeout(() => {
    if (!inner.hasChildNodes()) show(inner, el("p", { class: "quiet" }, "Loading…"));
  }, 300);
  shown(inner, () => PLACES[name](inner, { stream, open, choose, keep, query }), {
    // Without the server the last picture stays.
    unreachable: () => {
      if (!before.length || !place.contains(inner)) return false;
      place.replaceChildren(...before);
      return true;
    },
  }).then((left) => {
    clearTimeout(words);
    if (current === key && place.contains(inner)) leave = left || null;
    else if (left) left();
  });
}

async function details(detail) {
  const [kind, ...rest] = detail.split("/");
  const known = kind in DETAILS;
  beside.hidden = !known;
  stream.follow(known ? `${kind}/${rest.join("/")}` : "");
  if (!known) {
    detailed = "";
    show(beside);
    return;
  }
  if (detail === detailed) return;
  detailed = detail;
  folds.clear();
  await draw(fresh(beside), kind, rest.join("/"));
}

// What is open, drawn again in the same box when it has changed: scrolled and unfolded as it was.
// A part is the same one if only its numbers have changed.
const titleOf = (part) => part.firstElementChild?.textContent.replace(/\d+/g, "") ?? "";
const folds = new Map(); // by title: true if somebody unfolded the part, false if folded
beside.addEventListener(
  "toggle",
  (event) => {
    const part = /** @type {HTMLDetailsElement} */ (event.target);
    folds.set(titleOf(part), part.open);
  },
  true,
);
let drawnAt = 0;
let drawing = false;
let again = false;
async function refresh() {
  const inner = beside.firstElementChild;
  const [kind, ...rest] = detailed.split("/");
  if (beside.hidden || !inner || !(kind in DETAILS)) return;
  if (drawing) {
    again = true;
    return;
  }
  drawing = true;
  const top = beside.scrollTop;
  await draw(inner, kind, rest.join("/"));
  for (const part of inner.querySelectorAll("details")) {
    part.open = folds.get(titleOf(part)) ?? part.open;
  }
  beside.scrollTop = top;
  drawing = false;
  if (!again) return;
  again = false;
  setTimeout(refresh, 1000);
}
stream.on("about", refresh);
// The stream says nothing about workloads: the scheduler does not watch them all.
stream.on("hello", () => {
  if (WORKLOADS.includes(detailed.split("/")[0]) && Date.now() - drawnAt > EVERY) refresh();
});

async function draw(inner, kind, name) {
  drawnAt = Date.now();
  await shown(inner, () => DETAILS[kind](inner, { kind, name, open, close }), {
    failed: (message) =>
      show(
        inner,
        el(
          "div",
          { class: "bar-row" },
          el("h1", { class: "grow" }, name),
          el("button", { onclick: close, "aria-label": "Close" }, "Close"),
        ),
        el("p", {}, message),
      ),
  });
}

function entitle(name, detail) {
  const what = detail && !beside.hidden ? detail.split("/").slice(1).join("/") : TITLES[name];
  document.title = `${what} · stowplan`;
}

// A new box for what is shown: an answer that comes late is drawn where nobody looks any more.
function fresh(where) {
  const inner = el("div", { class: "inner" });
  show(where, inner);
  where.scrollTop = 0;
  return inner;
}

/**
 * Draw, or say why not. `unreachable` may put back what was there before.
 * @param {HTMLElement} where
 * @param {() => Promise<any>} drawn
 * @param {{failed?: ((message: string) => void) | null, unreachable?: () => boolean}} [options]
 */
async function shown(where, drawn, { failed = null, unreachable = () => false } = {}) {
  try {
    return await drawn();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const message = error.code === 404 ? `Not found: ${error.message}` : error.message;
    if (error.code === 0 && unreachable()) return null;
    if (failed) failed(message);
    else show(where, empty(message));
    return null;
  }
}

// The line on top

stream.on("hello", (hello) => {
  const scheduler = hello.scheduler;
  const profiles = scheduler.profiles.join(", ");
  status.title = `${hello.cluster}, ${scheduler.name} ${scheduler.version}, decides as kube-scheduler ${scheduler.release}, profiles ${profiles}`;
  const rest = [
    hello.cluster,
    scheduler.leader ? "leading" : "standby",
    `${scheduler.name} ${scheduler.version}, as kube-scheduler ${scheduler.release}`,
  ];
  show(
    status,
    hello.pods && [el("b", {}, `${number(hello.pods.waiting)} waiting`), " · "],
    hello.rate !== null && `${hello.rate} pods/s · `,
    hello.time && `${clock(new Date(hello.time))} · `,
    rest.join(" · "),
  );
});

// The server is heard every two seconds; anything older is said.
stream.on("age", (seconds) => {
  age.hidden = seconds < 3;
  age.textContent = `${Math.round(seconds)} s old`;
});
stream.on("lost", (since) => {
  document.body.classList.add("lost");
  lost.hidden = false;
  show(lost, `No word from the server since ${clock(since)}. What is shown is from then; trying again.`);
});
stream.on("ended", (message) => {
  show(lost, `This session has ended: ${message}.`);
});
stream.on("back", () => {
  document.body.classList.remove("lost");
  lost.hidden = true;
  current = "";
  go();
  refresh();
});

sharing();
const focusSearch = search({
  stream,
  open,
  group: (key) => {
    location.hash = withChoices("#/cluster", { by: key });
  },
});
keyboard({
  places: Object.keys(PLACES),
  lines: () => [...place.querySelectorAll("tr.link, li.link, .line.link")],
  search: focusSearch,
  close,
});

window.addEventListener("hashchange", go);
window.addEventListener("popstate", go);
go();
