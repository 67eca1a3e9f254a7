// Pending, Queue, Decisions.

import { get } from "./api.js";
import { age, el, empty, number, plural, show, table } from "./dom.js";

const LANES = {
  active: "ready to be tried",
  backoff: "waits after a failure",
  unschedulable: "waits for an event",
  gated: "held by a PreEnqueue plugin",
  permit: "waits at Permit",
  binding: "is being bound",
};

// Draws again at most once a second while things change, and only after the last drawing is done.
function following(stream, names, draw) {
  let waiting = null, stopped = false;
  const again = () => {
    if (waiting !== null) return;
    waiting = setTimeout(async () => { waiting = null; if (!stopped) await draw(); }, 1000);
  };
  const offs = names.map((name) => stream.on(name, again));
  return () => { stopped = true; clearTimeout(waiting); offs.forEach((off) => off()); };
}

export async function pending(place, { stream, open }) {
  const draw = async () => {
    const found = await get("/pending");
    if (!found.pods) return show(place, el("h1", {}, "Pending"), empty("No pod waits. Create one:", "kubectl run hello --image=nginx"));
    const rows = found.causes.map((cause) => ({ cells: [number(cause.count), cause.name, cause.reason, cause.help], open: () => open("pod", cause.pods[0]) }));
    show(place, el("h1", {}, `${plural(found.pods, "pod waits", "pods wait")} on ${plural(found.causes.length, "cause")}`),
      table(["pods", "which", "because", "helped by"], rows, { numeric: [0], caption: "Causes" }),
      found.causes.map((cause) => cause.count > 1 && el("details", {}, el("summary", { class: "quiet" }, `${cause.name}: ${plural(cause.count, "pod")}`),
        el("ul", {}, cause.pods.slice(0, 200).map((pod) => el("li", {}, el("button", { class: "plain", onclick: () => open("pod", pod) }, pod)))))));
  };
  await draw();
  return following(stream, ["queue"], draw);
}

export async function queue(place, { stream, open }) {
  const draw = async () => {
    const found = await get("/queue");
    show(place, el("h1", {}, "Queue"), el("div", { class: "lanes" }, found.lanes.map((lane) => laneOf(lane, open))));
  };
  await draw();
  return following(stream, ["queue", "decisions"], draw);
}

function laneOf(lane, open) {
  const blocks = Math.floor(lane.total / 100), dots = lane.total % 100;
  return el("section", { class: "lane", "aria-label": lane.name },
    el("h2", {}, el("span", {}, lane.name), el("b", {}, number(lane.total))),
    el("p", { class: "quiet" }, LANES[lane.name]),
    el("div", { class: "dots", title: "a dot is a pod, a block is a hundred" },
      Array.from({ length: Math.min(blocks, 200) }, () => el("i", { class: "block" })), Array.from({ length: dots }, () => el("i"))),
    el("ol", {}, lane.pods.slice(0, 12).map((one) => el("li", { tabindex: "0", title: one.cause, onclick: () => open("pod", one.pod), onkeydown: (event) => { if (event.key === "Enter") open("pod", one.pod); } },
      el("div", {}, one.pod), el("div", { class: "quiet" }, [one.since ? age(one.since) : one.node, one.cause].filter(Boolean).join(" · "))))));
}

export async function decisions(place, { stream, open }) {
  const draw = async () => {
    const found = await get("/decisions?limit=200");
    if (!found.items.length) return show(place, el("h1", {}, "Decisions"), empty("Nothing has been decided yet."));
    const latency = found.latency ? ` · from queue to binding ${milliseconds(found.latency.p50)} (p50), ${milliseconds(found.latency.p99)} (p99)` : "";
    const rows = found.items.map((one) => ({
      cells: [el("span", { class: "tight" }, clock(one.time)), one.pod, el("span", { class: "tight" }, one.node ?? ""), one.outcome, one.points ?? "", one.margin ?? "", one.seconds === null ? "" : milliseconds(one.seconds), el("span", { class: "cut", title: one.node ? "" : one.message }, one.victims.length ? `evicts ${one.victims.join(", ")}` : one.node ? "" : one.message)],
      open: () => open("pod", one.pod),
    }));
    show(place, el("h1", {}, "Decisions"), el("p", { class: "quiet" }, `${found.rate} pods a second${latency}`),
      table(["time", "pod", "node", "outcome", "points", "ahead by", "took", ""], rows, { numeric: [4, 5, 6], caption: "Latest decisions" }));
  };
  await draw();
  return following(stream, ["decisions"], draw);
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });
const milliseconds = (seconds) => (seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(2)} s`);
