// The map as it was: a slider over the moments that the server remembers; and what changed between two of them.

import { get } from "./api.js";
import { age, clock, el } from "./dom.js";

// `show` draws a moment, or now for null, and what has changed since another if that is given; `chosen` keeps both in
// the address.
export function past({ at, from = null, show, chosen }) {
  let times = [];
  const slider = el("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Moment" });
  const words = el("span", { class: "quiet" });
  const back = el("button", { hidden: true }, "Back to now");
  const pin = el("button", { hidden: true });
  const row = el("div", { class: "bar-row past", hidden: true }, "Moment ", slider, words, pin, back);
  let asked = 0;
  let time = null; // the moment that is shown
  const go = async (wanted) => {
    const number = ++asked;
    time = wanted;
    back.hidden = time === null && from === null;
    pin.hidden = time === null && from === null;
    pin.textContent = from === null ? "Compare with this" : "Stop comparing";
    const [then, before] = await Promise.all([
      time === null ? null : moment(time),
      from === null ? null : moment(from, time),
    ]);
    if (number !== asked) return;
    if (before)
      words.textContent = `${clock(before.time)} to ${then ? clock(then.time) : "now"}: ${between(before.changes)}`;
    else
      words.textContent = then
        ? `${clock(then.time)}, ${age(then.time)} ago. ${sentence(then.changes)}`
        : "now";
    show(then, before);
  };
  pin.addEventListener("click", () => {
    from = from === null ? time : null;
    chosen(time, from);
    go(time);
  });
  let moving = null;
  slider.addEventListener("input", () => {
    const wanted = times[Number(slider.value)] ?? null;
    words.textContent = wanted === null ? "now" : `${clock(wanted)}, ${age(wanted)} ago`;
    clearTimeout(moving);
    moving = setTimeout(() => {
      chosen(wanted, from);
      go(wanted);
    }, 150);
  });
  back.addEventListener("click", () => {
    slider.value = slider.max;
    from = null;
    chosen(null, null);
    go(null);
  });
  // The last place of the slider is now.
  const update = (found) => {
    const stays = slider.value === slider.max;
    times = found;
    row.hidden = times.length < 2;
    slider.max = String(times.length);
    if (stays) slider.value = slider.max;
    if (at !== null) {
      slider.value = String(nearest(times, at));
      go(at);
      at = null;
    } else if (from !== null && time === null && !asked) go(null);
  };
  return { row, update };
}

const moment = (time, until = null) =>
  get(`/moments/${encodeURIComponent(time)}${until === null ? "" : `?until=${encodeURIComponent(until)}`}`);
const between = (changes) => (changes.length ? `${changes.join("; ")}.` : "nothing has changed.");
const sentence = (changes) =>
  changes.length ? `Since then: ${changes.join("; ")}.` : "Nothing has changed since.";

function nearest(times, at) {
  const wanted = Date.parse(at);
  const far = (time) => Math.abs(Date.parse(time) - wanted);
  return times.reduce((best, time, index) => (far(time) < far(times[best]) ? index : best), 0);
}

// All nodes as they were then, in the form of all nodes now: full is 1.
export function nodesThen(nodes, moment) {
  const place = new Map(nodes.names.map((name, index) => [name, index]));
  const rows = moment.names.map((name) => place.get(name));
  const labels = {};
  for (const key of nodes.keys) {
    const { values, index } = nodes.labels[key];
    const gone = values.length;
    labels[key] = {
      values: rows.includes(undefined) ? [...values, "nodes that are gone"] : values,
      index: rows.map((row) => (row === undefined ? gone : index[row])),
    };
  }
  const resources = Object.keys(moment.fills);
  const columns = (value) =>
    Object.fromEntries(resources.map((name) => [name, moment.fills[name].map(value)]));
  return {
    names: moment.names,
    keys: nodes.keys,
    labels,
    resources,
    allocatable: columns((share) => (share < 0 ? 0 : 1)),
    requested: columns((share) => Math.max(share, 0)),
    unschedulable: moment.unschedulable,
    ready: moment.ready,
    then: true,
  };
}

// What the nodes shown had less or more of since a moment: [-1, 1] by node, null for those that were not there.
export function differences(nodes, before, share) {
  const earlier = nodesThen(nodes, before);
  const place = new Map(earlier.names.map((name, index) => [name, index]));
  return nodes.names.map((name, index) => {
    const then = place.get(name);
    return then === undefined ? null : share(nodes, index) - share(earlier, then);
  });
}
