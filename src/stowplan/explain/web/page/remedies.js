// Changes that would help, as the server offers them: words, where it leads, and the command to copy.

import { el, number } from "./dom.js";

/** @typedef {{text: string, outcome?: string, node?: string, command?: string}} Change */

// A command in its box. The button says that it was copied.
export function command(text) {
  const button = el("button", { class: "copy", "aria-label": `Copy ${text.split("\n")[0]}` }, "Copy");
  const code = el("code", {}, text);
  button.addEventListener("click", async (event) => {
    event.stopPropagation();
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without leave to write to the clipboard the text is selected, to be copied by keyboard.
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return el("div", { class: "command" }, code, button);
}

// The layers from a wish to running containers, up to the one that stops a pod or a workload.
export function stages(passed) {
  if (!passed.length) return null;
  return el(
    "ol",
    { class: "stages", "aria-label": "How far it came" },
    passed.map((one) => el("li", { class: one.state, title: one.text ?? "" }, one.name)),
  );
}

/**
 * The changes, in the order in which people would try them; `open` leads to the node of one, `use` adds what else can
 * be done with it.
 * @param {Change[]} changes
 * @param {{most?: number, open?: ((kind: string, name: string) => void) | null, use?: (change: Change) => any}} [options]
 */
export function remedies(changes, { most = changes.length, open = null, use = () => null } = {}) {
  const items = changes
    .slice(0, most)
    .map((one) =>
      el(
        "li",
        {},
        el("b", {}, one.text),
        one.outcome && [" → ", one.outcome],
        one.node && open && one.node !== "the new node"
          ? [" ", el("button", { class: "plain", onclick: () => open("node", one.node) }, "show the node")]
          : null,
        use(one),
        one.command ? command(one.command) : null,
      ),
    );
  const more = changes.length - items.length;
  return el(
    "ol",
    { class: "remedies", "aria-label": "Changes that would help" },
    items,
    more > 0 && el("li", { class: "quiet" }, `and ${number(more)} more`),
  );
}
