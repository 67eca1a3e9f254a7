// Changes of a cluster as rows of a form, and as the API takes them.

import { el, show } from "./dom.js";

const nodes = (label = "nodes") => ({
  name: "nodes",
  label,
  list: "try-nodes",
  hint: "node-7 or pool=a",
  wide: true,
});
const workload = { name: "workload", label: "workload", hint: "deployment/web", wide: true };
const numeric = (label, value) => ({ name: "count", label, type: "number", value });

const listed = (text) =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean);
const pairs = (text, separator) => Object.fromEntries(listed(text).map((one) => split(one, separator)));
const split = (text, separator) => {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
};
const filledIn = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== ""));

// By name: words, fields, and the change that a row stands for.
export const CHANGES = {
  cordon: { words: "Cordon nodes", fields: [nodes()], body: (row) => ({ cordon: row.nodes }) },
  uncordon: { words: "Uncordon nodes", fields: [nodes()], body: (row) => ({ uncordon: row.nodes }) },
  drain: { words: "Drain nodes", fields: [nodes()], body: (row) => ({ drain: row.nodes }) },
  remove: { words: "Remove nodes", fields: [nodes()], body: (row) => ({ remove: row.nodes }) },
  copy: {
    words: "Add nodes like",
    fields: [nodes("node"), numeric("count", "1")],
    body: (row) => ({ addNodes: { [row.nodes]: Number(row.count) } }),
  },
  shape: {
    words: "Add nodes of a shape",
    fields: [
      numeric("count", "1"),
      { name: "cpu", label: "cpu", value: "8" },
      { name: "memory", label: "memory", value: "32Gi" },
      { name: "more", label: "other resources", hint: "nvidia.com/gpu: 8", wide: true },
      { name: "labels", label: "labels", hint: "pool=a", wide: true },
    ],
    body: (row) => ({
      addNodes: [
        {
          name: Number(row.count) > 1 ? "new-{}" : "new",
          count: Number(row.count),
          cpu: row.cpu,
          memory: row.memory,
          ...(row.more ? { resources: pairs(row.more, ":") } : {}),
          ...(row.labels ? { labels: pairs(row.labels, "=") } : {}),
        },
      ].map(filledIn),
    }),
  },
  taint: {
    words: "Taint nodes",
    fields: [nodes(), { name: "taint", label: "taint", hint: "key=value:NoSchedule", wide: true }],
    body: (row) => ({ taint: { nodes: row.nodes, taints: row.taint } }),
  },
  label: {
    words: "Label nodes",
    fields: [nodes(), { name: "labels", label: "labels", hint: "pool=a", wide: true }],
    body: (row) => ({ label: { nodes: row.nodes, labels: pairs(row.labels, "=") } }),
  },
  scale: {
    words: "Scale a workload",
    fields: [workload, numeric("replicas", "3")],
    body: (row) => ({ scale: { [row.workload]: Number(row.count) } }),
  },
  priority: {
    words: "Change priority",
    fields: [workload, numeric("priority", "1000")],
    body: (row) => ({ priority: { [row.workload]: Number(row.count) } }),
  },
  delete: {
    words: "Delete a workload",
    fields: [workload],
    body: (row) => ({ delete: row.workload }),
  },
};

export const bodyOf = (row) => CHANGES[row.change].body(row);

// A row with the values that its fields begin with.
export const newRow = (change, values = {}) => ({
  change,
  ...Object.fromEntries(CHANGES[change].fields.map((field) => [field.name, field.value ?? ""])),
  ...values,
});

// The rows of a form. `changed` is called when one is; a row can show what is wrong with it.
export function changeRows(rows, changed) {
  const list = el("ol", { class: "changes" });
  const add = el(
    "select",
    { "aria-label": "Add a change", class: "add" },
    el("option", { value: "" }, "Add a change…"),
    Object.entries(CHANGES).map(([name, { words }]) => el("option", { value: name }, words)),
  );
  const draw = () =>
    show(
      list,
      rows.map((row, index) => rowOf(row, index)),
    );
  const rowOf = (row, index) => {
    const { words, fields } = CHANGES[row.change];
    const id = `change-${index}`;
    return el(
      "li",
      { "data-field": `changes[${index}]` },
      el(
        "div",
        { class: "row", role: "group", "aria-labelledby": id },
        el("b", { id }, words),
        fields.map((field) => fieldOf(field, row, words)),
        el(
          "button",
          {
            type: "button",
            class: "plain",
            "aria-label": `Leave out: ${words}`,
            title: "Leave out",
            onclick: () => {
              rows.splice(index, 1);
              draw();
              changed();
              add.focus();
            },
          },
          "✕",
        ),
      ),
      el("p", { class: "bad wrong", role: "alert", hidden: true }),
    );
  };
  const fieldOf = (field, row, words) =>
    el(
      "label",
      { class: field.wide ? "wide" : null },
      el("span", {}, field.label),
      el("input", {
        type: field.type ?? "text",
        min: field.type === "number" ? "0" : null,
        list: field.list,
        placeholder: field.hint,
        value: row[field.name],
        required: field.name !== "more" && field.name !== "labels",
        "aria-label": `${words}: ${field.label}`,
        spellcheck: "false",
        autocomplete: "off",
        oninput: (event) => {
          row[field.name] = event.target.value.trim();
          changed();
        },
      }),
    );
  add.addEventListener("change", () => {
    if (!add.value) return;
    rows.push(newRow(add.value));
    add.value = "";
    draw();
    changed();
    list.lastElementChild.querySelector("input").focus();
  });
  draw();
  return el("div", {}, list, add);
}
