// What happened to a pod, on one line of time: attempts, preemptions and events, and the same as a list.

import { age, el, number, plural, table } from "./dom.js";

const LISTED = 12; // entries that are shown at first
const LANES = ["attempts", "preemption", "events"];
// Events that say what an attempt says.
const SAID = new Set(["FailedScheduling", "Scheduled"]);

// `found` is the document of a pod, `seen` that of its events; `link` leads to a pod or group by its name.
export function timeLine(found, seen, link) {
  const entries = [...attempts(found), ...preemptions(found, link), ...events(found, seen)]
    .filter((one) => one.time)
    .map((one) => ({ ...one, at: Date.parse(one.time) }))
    .sort((one, other) => other.at - one.at);
  if (!entries.length) return null;
  return [
    picture(entries),
    list(entries),
    seen.incomplete.map((line) => el("p", { class: "incomplete" }, `incomplete: ${line}`)),
  ];
}

// Attempts with the same outcome and message, one after the other, are one entry.
function attempts(found) {
  const rows = [];
  for (const one of found.attempts) {
    const last = rows.at(-1);
    if (last && last.outcome === one.outcome && last.message === one.message) {
      last.first = one.number;
      last.times.push(one.time);
    } else rows.push({ ...one, first: one.number, times: [one.time] });
  }
  return rows.map((one) => ({
    lane: "attempts",
    time: one.time,
    times: one.times,
    good: one.outcome === "bound" || one.outcome === "binding",
    what: `attempt ${one.first === one.number ? one.number : `${one.first}–${one.number}`}`,
    words: `${one.outcome}: ${one.brief}`,
    by: "scheduler",
  }));
}

function preemptions(found, link) {
  const both = [
    ["evicts", found.evictions, found.evictions?.victims],
    ["evicted for", found.evicted, found.evicted?.by],
  ];
  return both
    .filter(([, one]) => one)
    .map(([what, one, pods]) => ({
      lane: "preemption",
      time: one.time,
      times: [one.time],
      what,
      words: (pods ?? []).slice(0, 4).map((name) => [link(name), " "]),
      title: (pods ?? []).join(", "),
      by: "scheduler",
    }));
}

function events(found, seen) {
  const told = found.attempts.length > 0;
  return seen.items
    .filter((one) => !(told && SAID.has(one.reason)))
    .map((one) => ({
      lane: "events",
      time: one.time,
      times: [one.time],
      bad: one.type === "Warning",
      what: one.reason,
      words: [one.note, one.times > 1 && el("span", { class: "quiet" }, ` (${number(one.times)} times)`)],
      title: one.note,
      by: one.component,
    }));
}

function picture(entries) {
  const times = entries.flatMap((one) => one.times.map(Date.parse));
  const first = Math.min(...times);
  const until = Math.max(Date.now(), first + 1000);
  const left = (time) => `${(100 * (Date.parse(time) - first)) / (until - first)}%`;
  const lanes = LANES.filter((lane) => entries.some((one) => one.lane === lane));
  const counts = lanes.map((lane) => {
    const count = entries.filter((one) => one.lane === lane).reduce((sum, one) => sum + one.times.length, 0);
    return lane === "preemption" ? plural(count, "preemption") : plural(count, lane.slice(0, -1));
  });
  return el(
    "figure",
    { class: "time-line", role: "img", "aria-label": `${counts.join(", ")} in ${age(new Date(first))}` },
    lanes.map((lane) => [
      el("span", { class: "lane-name quiet" }, lane),
      el(
        "div",
        { class: `axis ${lane}` },
        entries
          .filter((one) => one.lane === lane)
          .flatMap((one) =>
            one.times.map((time) =>
              el("i", {
                class: one.good ? "bound" : one.bad ? "warning" : null,
                style: { left: left(time) },
                title: `${one.what}, ${age(time)} ago: ${one.title ?? one.words}`,
              }),
            ),
          ),
      ),
    ]),
    el(
      "figcaption",
      { class: "quiet" },
      el("span", {}, `${age(new Date(first))} ago`),
      el("span", {}, "now"),
    ),
  );
}

function list(entries) {
  const rows = entries.map((one) => ({
    cells: [
      el("span", { class: "tight" }, `${age(one.time)} ago`),
      el("span", { class: one.good ? "good" : one.bad ? "bad" : null }, one.what),
      one.words,
      one.by,
    ],
  }));
  const drawn = (some, caption) => table(["when", "what", "", "by"], some, { caption });
  if (rows.length <= LISTED) return drawn(rows, "What happened");
  return [
    drawn(rows.slice(0, LISTED), "What happened"),
    el(
      "details",
      {},
      el("summary", { class: "quiet" }, `${number(rows.length - LISTED)} earlier`),
      drawn(rows.slice(LISTED), "What happened earlier"),
    ),
  ];
}
