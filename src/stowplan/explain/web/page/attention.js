// What is wrong now: a strip above the map, each part of which leads to its view.

import { get } from "./api.js";
import { lineChart } from "./charts.js";
import { age, el, number, plural, show } from "./dom.js";

const FIGURES = 5000; // milliseconds between two loads of the figures
const CAUSES = 15000; // … of the causes, which take longer to find

// `fill` shows a resource on the map, `open` a node. Calls `loaded` with the figures whenever they are new.
export function attention(stream, { open, fill, loaded }) {
  const strip = el("section", { class: "attention", "aria-label": "What needs attention" });
  let causes = null;
  let figuresAt = 0;
  let causesAt = 0;
  let stopped = false;
  const look = async () => {
    if (stopped || Date.now() - figuresAt < FIGURES) return;
    figuresAt = Date.now();
    const found = await get("/attention").catch(() => null);
    if (stopped || !found) return;
    loaded(found);
    show(strip, cards(found, causes, { open, fill }));
    if (Date.now() - causesAt < CAUSES) return;
    causesAt = Date.now();
    causes = await get("/pending").catch(() => null);
    if (!stopped && causes) show(strip, cards(found, causes, { open, fill }));
  };
  look();
  const off = stream.on("hello", look);
  return {
    strip,
    stop: () => {
      stopped = true;
      off();
    },
  };
}

function cards(found, causes, { open, fill }) {
  return [waiting(found, causes), started(causes), nodes(found, open), scarcest(found, fill), trend(found)];
}

const card = (title, tone, ...rest) => el("div", { class: "card" }, el("b", { class: tone }, title), ...rest);
const line = (...parts) => el("div", { class: "quiet" }, ...parts);

function waiting(found, causes) {
  if (!found.waiting) return card("No pod waits", "good");
  const since = found.oldest ? line(`the oldest for ${age(found.oldest)}`) : null;
  const why = (causes?.causes ?? [])
    .slice(0, 2)
    .map((cause) => line(`${number(cause.count)}: `, el("a", { href: linkTo(cause) }, cause.reason)));
  const title = el("a", { href: "#/pending" }, plural(found.waiting, "pod waits", "pods wait"));
  return card(title, "bad", since, why.length ? why : causes ? null : line("finding out why…"));
}

const linkTo = (cause) => `#/pending?cause=${encodeURIComponent(cause.name)}`;

// Pods that have a node and do not run, and workloads whose pods cannot be created.
function started(causes) {
  const count = (list) => (list ?? []).reduce((sum, cause) => sum + cause.count, 0);
  const parts = [
    [causes?.notCreated, (some) => plural(some, "pod cannot be created", "pods cannot be created")],
    [causes?.notStarted, (some) => plural(some, "pod does not run", "pods do not run")],
    [causes?.elsewhere, (some) => `${plural(some, "pod")} of another scheduler`],
  ];
  return parts
    .filter(([list]) => count(list) > 0)
    .map(([list, words]) =>
      card(
        el("a", { href: linkTo(list[0]) }, words(count(list))),
        "bad",
        line(`${list[0].name}: ${list[0].reason}`),
      ),
    );
}

function nodes(found, open) {
  const parts = [
    ["not ready", found.notReady],
    ["cordoned", found.cordoned],
  ].filter(([, one]) => one.count);
  if (!parts.length) return card("All nodes are ready", "good");
  return parts.map(([word, one]) =>
    card(
      `${plural(one.count, "node")} ${word}`,
      "bad",
      line(
        one.names
          .slice(0, 3)
          .map((name) => [el("button", { class: "plain", onclick: () => open("node", name) }, name), " "]),
        one.count > 3 && `and ${number(one.count - 3)} more`,
      ),
    ),
  );
}

function scarcest(found, fill) {
  if (!found.scarcest) return null;
  const { resource, share } = found.scarcest;
  const title = `${Math.round(100 * share)} % of ${resource} requested`;
  return card(
    el("button", { class: "plain", onclick: () => fill(resource) }, title),
    share >= 0.9 ? "bad" : null,
    line("the scarcest resource"),
  );
}

function trend(found) {
  const times = found.trend.times.map((time) => Date.parse(time) / 1000);
  if (times.length < 3 || !found.trend.waiting.some(Boolean)) return null;
  const series = [{ name: "pods wait", values: found.trend.waiting }];
  return el("div", { class: "card wide" }, lineChart({ title: "", times, series, dates: true, height: 56 }));
}
