// The search field: pods by name, label, node or cause, groups, workloads and nodes by name, nodes by label.

import { get } from "./api.js";
import { el, plural, show } from "./dom.js";

const input = /** @type {HTMLInputElement} */ (document.getElementById("search-text"));
const results = document.getElementById("search-results");

// `open` opens a pod, node or group; `group` shows the nodes grouped by a label.
export function search({ stream, open, group }) {
  let asked = 0;
  let chosen = -1;
  let typed = null;
  let nodes = null; // loaded at the first search, again when nodes came or went
  stream.on("nodes", (change) => {
    if (change.reload) nodes = null;
  });

  async function look() {
    const text = input.value.trim().toLowerCase();
    const number = ++asked;
    if (!text) {
      results.hidden = true;
      return;
    }
    const asking = encodeURIComponent(text);
    nodes ??= get("/nodes").catch(() => ({ names: [], keys: [], labels: {} }));
    const [pods, groups, workloads, known] = await Promise.all([
      get(`/pods?limit=12&search=${asking}`),
      get(`/podgroups?limit=6&search=${asking}`),
      get(`/workloads?limit=6&search=${asking}`),
      nodes,
    ]).catch((error) => [null, null, null, error.message]);
    if (number !== asked) return;
    if (pods === null) return list([], known);
    list([
      ...groups.items.map((one) => [
        one.group,
        `group, ${one.state}`,
        () => open(one.kind.toLowerCase(), one.group),
      ]),
      ...workloads.items.map((one) => [
        one.workload,
        one.kind,
        () => open(one.kind.toLowerCase(), one.workload),
      ]),
      ...pods.items.map((one) => [one.pod, one.node || one.state, () => open("pod", one.pod)]),
      ...labels(known, text).map(([key, value, count]) => [
        `${key}=${value}`,
        plural(count, "node"),
        () => group(key),
      ]),
      ...known.names
        .filter((name) => name.toLowerCase().includes(text))
        .slice(0, 6)
        .map((name) => [name, "node", () => open("node", name)]),
    ]);
  }

  function list(items, problem = "Nothing found.") {
    chosen = items.length ? 0 : -1;
    const rows = items.map(([name, what, act], index) => {
      const choose = () => {
        results.hidden = true;
        input.value = "";
        input.blur();
        act();
      };
      const row = el(
        "li",
        { role: "option", "aria-selected": String(index === 0), onmousedown: choose },
        el("span", {}, name),
        el("span", { class: "quiet" }, what),
      );
      row.addEventListener("choose", choose);
      return row;
    });
    show(results, rows.length ? rows : el("li", { class: "quiet" }, problem));
    results.hidden = false;
  }

  input.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(look, 120);
  });
  input.addEventListener("blur", () =>
    setTimeout(() => {
      results.hidden = true;
    }, 150),
  );
  input.addEventListener("keydown", (event) => {
    const options = [...results.querySelectorAll("[role=option]")];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = Math.max(0, Math.min(options.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
      options.forEach((option, index) => option.setAttribute("aria-selected", String(index === chosen)));
      event.preventDefault();
    } else if (event.key === "Escape") input.blur();
  });
  document.getElementById("search").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (results.hidden) await look();
    results.querySelectorAll("[role=option]")[chosen]?.dispatchEvent(new Event("choose"));
  });
  return () => input.focus();
}

// Labels that nodes have, by `key=value` or a part of it.
function labels(nodes, text) {
  const found = [];
  for (const key of nodes.keys) {
    const { values, index } = nodes.labels[key];
    values.forEach((value, place) => {
      if (value && `${key}=${value}`.toLowerCase().includes(text))
        found.push([key, value, index.filter((one) => one === place).length]);
    });
  }
  return found.slice(0, 4);
}
