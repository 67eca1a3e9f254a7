// A pod or node as the API server has it: owner, requests, events and YAML, loaded when somebody unfolds it; and
// any document as JSON.

import { get } from "./api.js";
import { age, el, number, show, table } from "./dom.js";

// `open` leads to its owner.
export function objectOf(path, open) {
  const box = el("div");
  const place = el("details", {}, el("summary", {}, "Owner, requests, events, YAML"), box);
  place.addEventListener("toggle", async () => {
    if (!place.open || box.hasChildNodes()) return;
    try {
      show(box, parts(await get(`${path}/object`), open));
    } catch (error) {
      show(box, el("p", { class: "quiet" }, error.message));
    }
  });
  return place;
}

function parts(found, open) {
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
    found.owner && el("p", {}, "Owner: ", ownerOf(found, open)),
    requests.length > 0 && el("p", {}, `Requests: ${requests.join(", ")}`),
    found.incomplete.map((line) => el("p", { class: "incomplete" }, `incomplete: ${line}`)),
    events.length > 0 && table(["seen", "reason", "message", "by"], events, { caption: "Events" }),
    !events.length && !found.incomplete.length && el("p", { class: "quiet" }, "No events."),
    el("pre", {}, found.yaml),
  ];
}

// The workload above a pod; controllers of other kinds are only named.
const WORKLOADS = ["deployment", "replicaset", "statefulset", "daemonset", "job", "cronjob"];
function ownerOf(found, open) {
  const [kind, name] = found.owner.split("/");
  if (!WORKLOADS.includes(kind)) return found.owner;
  const key = `${found.name.split("/")[0]}/${name}`;
  return el("button", { class: "plain", onclick: () => open(kind, key) }, found.owner);
}

// A document as it came.
export function raw(found) {
  const place = el("details", {}, el("summary", { class: "quiet" }, "Raw JSON"));
  const fill = () => {
    if (place.children.length === 1) place.append(el("pre", {}, JSON.stringify(found, null, 2)));
  };
  place.addEventListener("toggle", () => place.open && fill());
  place.addEventListener("fill", fill); // a copy that is saved has it, too
  return place;
}
