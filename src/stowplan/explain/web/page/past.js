// The map as it was: a slider over the moments that the server remembers.

import { get } from "./api.js";
import { age, el } from "./dom.js";

// `show` draws a moment, or now for null; `chosen` keeps it in the address.
export function past({ at, show, chosen }) {
  let times = [];
  const slider = el("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Moment" });
  const words = el("span", { class: "quiet" });
  const back = el("button", { hidden: true }, "Back to now");
  const row = el("div", { class: "bar-row past", hidden: true }, "Moment ", slider, words, back);
  let asked = 0;
  const go = async (time) => {
    const number = ++asked;
    back.hidden = time === null;
    const found = time === null ? null : await get(`/moments/${encodeURIComponent(time)}`);
    if (number !== asked) return;
    words.textContent = found
      ? `${clock(found.time)}, ${age(found.time)} ago. ${sentence(found.changes)}`
      : "now";
    show(found);
  };
  let moving = null;
  slider.addEventListener("input", () => {
    const time = times[Number(slider.value)] ?? null;
    words.textContent = time === null ? "now" : `${clock(time)}, ${age(time)} ago`;
    clearTimeout(moving);
    moving = setTimeout(() => {
      chosen(time);
      go(time);
    }, 150);
  });
  back.addEventListener("click", () => {
    slider.value = slider.max;
    chosen(null);
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
    }
  };
  return { row, update };
}

const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });
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
