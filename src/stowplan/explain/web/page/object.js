// A pod or node as the API server has it: owner, requests, events and YAML, loaded when somebody unfolds it.

import { get } from "./api.js";
import { age, el, number, show, table } from "./dom.js";

export function objectOf(path) {
  const box = el("div");
  const place = el("details", {}, el("summary", {}, "Owner, requests, events, YAML"), box);
  place.addEventListener("toggle", async () => {
    if (!place.open || box.hasChildNodes()) return;
    try {
      show(box, parts(await get(`${path}/object`)));
    } catch (error) {
      show(box, el("p", { class: "quiet" }, error.message));
    }
  });
  return place;
}

function parts(found) {
  const requests = Object.entries(found.requests).map(([resource, amount]) => `${amount} ${resource}`);
  const events = found.events.map((one) => ({
    cells: [
      el("span", { class: "tight" }, `${age(one.time)} ago`),
      el("span", { class: one.type === "Warning" ? "bad" : null }, one.reason),
      [one.note, one.times > 1 && el("span", { class: "quiet" }, ` (${number(one.times)} times)`)],
      one.component,
    ],
  }));
  return [
    found.owner && el("p", {}, `Owner: ${found.owner}`),
    requests.length > 0 && el("p", {}, `Requests: ${requests.join(", ")}`),
    found.incomplete.map((line) => el("p", { class: "incomplete" }, `incomplete: ${line}`)),
    events.length > 0 && table(["seen", "reason", "message", "by"], events, { caption: "Events" }),
    !events.length && !found.incomplete.length && el("p", { class: "quiet" }, "No events."),
    el("pre", {}, found.yaml),
  ];
}
