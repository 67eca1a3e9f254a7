// A field for YAML: numbered lines, the Tab key indents, a new line is indented like the one before.

import { el } from "./dom.js";

export function editor({ id, label, value, changed, rows = 14 }) {
  const numbers = el("pre", { class: "numbers", "aria-hidden": "true" });
  const area = el("textarea", {
    id,
    rows: String(rows),
    wrap: "off",
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    "aria-describedby": `${id}-keys`,
  });
  const count = () => {
    const lines = area.value.split("\n").length;
    numbers.textContent = Array.from({ length: lines }, (_, index) => index + 1).join("\n");
  };
  const put = (text) => {
    // As if it were typed, so that it can be undone.
    if (!document.execCommand("insertText", false, text))
      area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
  };
  let leaving = false; // after Esc the Tab key leads on
  area.value = value;
  count();
  area.addEventListener("input", () => {
    count();
    changed(area.value);
  });
  area.addEventListener("scroll", () => (numbers.scrollTop = area.scrollTop));
  area.addEventListener("blur", () => (leaving = false));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leaving = true;
    else if (event.key === "Tab" && !event.shiftKey && !leaving) {
      event.preventDefault();
      put("  ");
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const line = area.value.slice(0, area.selectionStart).split("\n").at(-1);
      put(`\n${/^ */.exec(line)[0]}${/:\s*$/.test(line) ? "  " : ""}`);
    }
  });
  return {
    area,
    box: el(
      "div",
      {},
      el("label", { for: id, class: "editor-label" }, label),
      el("div", { class: "editor" }, numbers, area),
      el("p", { class: "sr", id: `${id}-keys` }, "Tab indents. Esc, then Tab, leaves the field."),
    ),
    set: (text) => {
      area.value = text;
      count();
      changed(text);
    },
    // Select a line, from 1.
    select: (line) => {
      const lines = area.value.split("\n");
      const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      area.focus();
      area.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
      area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / Math.max(lines.length, 1)));
    },
  };
}
