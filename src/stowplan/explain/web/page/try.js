// Try it: pods, changes of the cluster or another scheduler, tried on a copy. Nothing is written.

import { ApiError, ask, get, podPath } from "./api.js";
import { bodyOf, changeRows, CHANGES, newRow } from "./changes.js";
import { el, show } from "./dom.js";
import { editor } from "./editor.js";
import { differences, presentProfiles, profileFields } from "./profiles.js";
import { answered } from "./tried.js";

const LONGEST = 1800; // characters of a form in the address: longer links are cut by chats and mails
const LINKED = ["drain", "cordon", "uncordon", "remove", "copy"]; // changes that links begin with
const SAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: example
spec:
  containers:
  - name: main
    image: example
    resources:
      requests:
        cpu: "1"
        memory: 1Gi
`;

export async function tryIt(place, { open, keep, query }) {
  const [profiles, names] = await Promise.all([
    presentProfiles(),
    get("/nodes")
      .then((nodes) => nodes.names)
      .catch(() => []),
  ]);
  const state = await begun(query);
  const result = el("section", { class: "answer", "aria-label": "Answer" });
  const told = el("p", { class: "sr", role: "status" });
  const alone = el("p", { class: "bad wrong", role: "alert", hidden: true });
  const button = el("button", { class: "primary", type: "submit" });
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const stale = el("p", { class: "quiet stale", hidden: true }, "The form has changed since this answer.");
  let running = null;
  const changed = () => {
    stale.hidden = !result.querySelector(".headline");
    form.querySelectorAll(".wrong").forEach((line) => line.setAttribute("hidden", ""));
    remember(state, keep);
    button.textContent = wordsOf(state, profiles);
  };
  const yaml = editor({
    id: "try-yaml",
    label: "Manifests of pods or workloads, in YAML",
    value: state.yaml,
    changed: (text) => {
      state.yaml = text;
      changed();
    },
  });
  const form = el(
    "form",
    { class: "try-form", novalidate: true, "aria-label": "What to try" },
    el(
      "datalist",
      { id: "try-nodes" },
      names.slice(0, 1000).map((value) => el("option", { value })),
    ),
    part(
      "Pods",
      state.yaml !== "" || !state.rows.length,
      yaml.box,
      el("p", { class: "bad wrong", role: "alert", hidden: true, "data-wrong": "manifests" }),
      el(
        "div",
        { class: "row" },
        el(
          "button",
          {
            type: "button",
            onclick: () => {
              yaml.set(SAMPLE);
              yaml.area.focus();
            },
          },
          "Sample pod",
        ),
        el(
          "label",
          { "data-field": "replicas" },
          el("span", {}, "replicas"),
          el("input", {
            type: "number",
            min: "0",
            placeholder: "as written",
            value: state.replicas,
            oninput: (event) => {
              state.replicas = event.target.value;
              changed();
            },
          }),
        ),
        tick("may evict pods of lower priority", state, "preempt", changed),
        tick("pending pods go first", state, "pendingFirst", changed),
      ),
      el("p", { class: "bad wrong", role: "alert", hidden: true, "data-wrong": "replicas" }),
    ),
    part("Changes of the cluster", true, changeRows(state.rows, changed)),
    profiles.length > 0 &&
      part(
        "Another scheduler",
        differences(profiles, state.profiles) !== null || state.config !== "",
        el("p", { class: "quiet" }, "Tried alone: all pods with a controller are placed again."),
        profileFields(profiles, state.profiles, changed),
        whole(state, changed),
      ),
    alone,
    el(
      "div",
      { class: "row go" },
      button,
      stop,
      el("span", { class: "quiet" }, "Nothing is written to the cluster."),
    ),
  );
  const submit = async () => {
    if (running) return;
    stale.hidden = true;
    alone.hidden = true;
    let asked;
    try {
      asked = questionOf(state, profiles);
    } catch (error) {
      wrong(form, alone, yaml, error);
      return;
    }
    told.textContent = "";
    running = new AbortController();
    const began = Date.now();
    const count = setInterval(() => (button.textContent = `Trying… ${seconds(began)}`), 500);
    button.textContent = "Trying…";
    button.disabled = true;
    stop.hidden = false;
    try {
      const found = await ask(asked.question, { ...asked.body, nodes: true, report: true }, running.signal);
      const explained =
        asked.question === "fit" && !found.result.fits
          ? await ask(
              "explain",
              { manifests: /** @type {any} */ (asked.body).manifests },
              running.signal,
            ).catch(() => null)
          : null;
      const edit = (text) => {
        yaml.set(text);
        submit();
      };
      show(result, answered(found, { open, explained, edit }));
      told.textContent = found.summary;
      stale.hidden = true;
      state.asked = true;
      remember(state, keep);
      // Below the form, on a narrow screen, nobody would see it.
      if (result.getBoundingClientRect().top > place.parentElement.clientHeight * 0.7)
        result.scrollIntoView();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      wrong(form, alone, yaml, error);
    } finally {
      clearInterval(count);
      running = null;
      button.disabled = false;
      stop.hidden = true;
      button.textContent = wordsOf(state, profiles);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
  });
  stop.addEventListener("click", () => running?.abort());
  show(
    place,
    el("h1", {}, "Try it"),
    el("div", { class: "try" }, el("div", {}, form), el("div", {}, told, stale, result)),
  );
  button.textContent = wordsOf(state, profiles);
  show(result, hint(names[0], profiles[0]));
  if (state.asked) submit();
  return () => running?.abort();
}

const seconds = (began) => `${Math.round((Date.now() - began) / 1000)} s`;

// Ways to begin, each a link to a form.
function hint(node, profile) {
  const scheduler = profile && { profiles: { [profile.name]: { weights: {}, strategy: "MostAllocated" } } };
  const ways = [
    node && [`What if ${node} were drained?`, `drain=${encodeURIComponent(node)}`],
    node && [`What if there were one more node like ${node}?`, `copy=${encodeURIComponent(node)}`],
    ["Where would a pod of 1 cpu go?", `form=${packed({ yaml: SAMPLE, asked: true })}`],
    profile?.strategy === "LeastAllocated" && [
      "What if pods were packed instead of spread out?",
      `form=${packed({ ...scheduler, asked: true })}`,
    ],
  ].filter(Boolean);
  return el(
    "div",
    { class: "empty" },
    el("p", {}, "Edit a pod and see where it would go. Cordon, drain or add nodes and see what moves."),
    el(
      "ul",
      { class: "ways" },
      ways.map(([words, form]) => el("li", {}, el("a", { href: `#/try?${form}` }, words))),
    ),
    el("p", {}, "Each answer names the command line that gives the same."),
  );
}

const part = (title, isOpen, ...inside) =>
  el("details", { open: isOpen }, el("summary", {}, el("h2", {}, title)), inside);

const tick = (words, state, name, changed) =>
  el(
    "label",
    { class: "tick" },
    el("input", {
      type: "checkbox",
      checked: state[name],
      onchange: (event) => {
        state[name] = event.target.checked;
        changed();
      },
    }),
    words,
  );

function whole(state, changed) {
  const config = editor({
    id: "try-config",
    label: "A whole KubeSchedulerConfiguration, in YAML, in place of the fields above",
    value: state.config,
    rows: 6,
    changed: (text) => {
      state.config = text;
      changed();
    },
  });
  return el(
    "details",
    { open: state.config !== "" },
    el("summary", {}, "A whole configuration"),
    config.box,
    el("p", { class: "bad wrong", role: "alert", hidden: true, "data-wrong": "config" }),
  );
}

// The form that an address stands for: a whole one, a pod to edit, or a change to begin with.
async function begun(query) {
  const state = {
    yaml: "",
    replicas: "",
    preempt: false,
    pendingFirst: false,
    rows: [],
    profiles: {},
    config: "",
    asked: false,
    ...unpacked(query.get("form")),
  };
  state.rows = state.rows.filter((row) => row.change in CHANGES);
  for (const change of LINKED) {
    if (!query.get(change)) continue;
    state.rows.push(newRow(change, { nodes: query.get(change) }));
    state.asked = true;
  }
  if (query.get("pod")) {
    const found = await get(`${podPath(query.get("pod"))}/object`);
    state.yaml = found.manifest;
  }
  return state;
}

function remember(state, keep) {
  const form = packed(state);
  keep(form.length <= LONGEST ? { form } : {});
}

// Letters, digits, - and _ alone: the rest of an address has a meaning.
function packed(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

function unpacked(text) {
  if (!text) return {};
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) =>
      one.charCodeAt(0),
    );
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return {};
  }
}

// What is asked. Throws ApiError for a form that asks nothing, or two things.
function questionOf(state, profiles) {
  const different = differences(profiles, state.profiles);
  const manifests = state.yaml.trim() ? state.yaml : null;
  if (state.config.trim() || different) {
    if (manifests || state.rows.length)
      throw new ApiError(400, "Another scheduler is tried alone: leave out pods and changes, or its fields.");
    return {
      question: "compare",
      body: state.config.trim() ? { config: state.config } : { profiles: different },
    };
  }
  if (state.rows.length)
    return {
      question: "whatif",
      body: { changes: state.rows.map(bodyOf), ...(manifests ? { manifests } : {}) },
    };
  if (!manifests) throw new ApiError(400, "Enter a pod, or add a change.");
  return {
    question: "fit",
    body: {
      manifests,
      preempt: state.preempt,
      pendingFirst: state.pendingFirst,
      ...(state.replicas === "" ? {} : { replicas: Number(state.replicas) }),
    },
  };
}

function wordsOf(state, profiles) {
  try {
    return { fit: "Try: does it fit?", whatif: "Try the changes", compare: "Try the scheduler" }[
      questionOf(state, profiles).question
    ];
  } catch {
    return "Try";
  }
}

// A mistake is shown where its field is.
function wrong(form, alone, yaml, error) {
  const field = error.field ?? "";
  const at =
    form.querySelector(`[data-wrong="${CSS.escape(field)}"]`) ??
    [...form.querySelectorAll("[data-field]")]
      .filter((one) => field === one.dataset.field || field.startsWith(`${one.dataset.field}.`))
      .map((one) => one.querySelector(".wrong"))
      .find(Boolean) ??
    alone;
  const rest = at.closest("[data-field]")?.dataset.field ?? field;
  const inner = field.startsWith(`${rest}.`) ? `${field.slice(rest.length + 1)}: ` : "";
  const known = at !== alone || !field ? inner : `${field}: `;
  at.textContent = `${known}${error.message}`;
  at.hidden = false;
  const folded = at.closest("details:not([open])");
  if (folded) folded.open = true;
  at.scrollIntoView({ block: "nearest" });
  const line = field === "manifests" ? /^line (\d+)/.exec(error.message) : null;
  if (line) yaml.select(Number(line[1]));
}
