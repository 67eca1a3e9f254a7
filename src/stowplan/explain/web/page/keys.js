// The keyboard: one place for all of it, and `?` tells.

import { el, table } from "./dom.js";

const KEYS = [
  ["/", "search pods, workloads, groups, nodes, labels, causes"],
  ["1 to 6", "Cluster, Pending, Groups, Queue, Decisions, Try it"],
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

// `lines` are those of the view, `places` the names of the views in the order of their numbers.
export function keyboard({ places, lines, search, close }) {
  document.body.append(help);
  document.getElementById("keys").addEventListener("click", () => help.showModal());
  let last = 0; // where j and k go on after something was closed

  function step(by) {
    const all = lines();
    if (!all.length) return;
    const now = all.indexOf(document.activeElement);
    last = now < 0 ? Math.min(last, all.length - 1) : Math.max(0, Math.min(all.length - 1, now + by));
    all[last].focus();
    all[last].scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
      return;
    if (event.key === "/") {
      search();
      event.preventDefault();
    } else if (event.key === "?") help.showModal();
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else if (places[Number(event.key) - 1]) location.hash = `/${places[Number(event.key) - 1]}`;
    else if (event.key === "Escape") close();
  });
}
