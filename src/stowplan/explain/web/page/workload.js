// One workload: how many pods it wants and has, what keeps it from more, and what would help.

import { get, workloadPath } from "./api.js";
import { el, number, plural, show } from "./dom.js";
import { raw } from "./object.js";
import { remedies, stages } from "./remedies.js";

export async function workload(place, { kind, name, open, close }) {
  if (!place.hasChildNodes()) show(place, el("p", { class: "quiet" }, `Explaining ${name}…`));
  const found = await get(workloadPath(kind, name));
  show(
    place,
    el(
      "div",
      { class: "bar-row" },
      el("h1", { class: "grow" }, found.workload),
      el("button", { onclick: close, "aria-label": "Close" }, "Close"),
    ),
    el("p", { class: "headline" }, found.headline),
    found.incomplete.map((line) => el("p", { class: "incomplete" }, `incomplete: ${line}`)),
    found.changes.length > 0 && [el("h2", {}, "Any one of these would help"), remedies(found.changes)],
    !found.changes.length && found.remedy && el("p", {}, `Helped by: ${found.remedy}`),
    stages(found.stages),
    found.situation.length > 0 && el("p", { class: "quiet" }, found.situation.join(" · ")),
    found.notes.map((note) => el("p", {}, note)),
    found.causes.length > 0 && [
      el("h2", {}, "Its pods that do not run"),
      found.causes.map((one) => causeOf(one, open)),
    ],
    found.unexplained > 0 &&
      el("p", { class: "quiet" }, `and ${plural(found.unexplained, "pod")} not looked at`),
    raw(found),
  );
}

// Pods that do not run for one reason: what helps, and the pods.
function causeOf(cause, open) {
  const changes = cause.explanation?.changes ?? [];
  const shown = cause.pods.slice(0, 12);
  return el(
    "section",
    { "aria-label": cause.reason },
    el("p", {}, el("b", {}, `${number(cause.count)} `), cause.reason),
    changes.length > 0 ? remedies(changes, { open }) : cause.help && el("p", {}, `Helped by: ${cause.help}`),
    el(
      "p",
      {},
      shown.map((pod) => [el("button", { class: "plain", onclick: () => open("pod", pod) }, pod), " "]),
      cause.pods.length > shown.length &&
        el("span", { class: "quiet" }, `and ${number(cause.pods.length - shown.length)} more`),
    ),
  );
}
