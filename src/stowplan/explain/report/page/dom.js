// Small helpers to build the page. Text is always set as text, never as markup: names come from the cluster.

/**
 * What an element is filled with; null, undefined and false are left out.
 * @typedef {Node | string | number | boolean | null | undefined} Single
 * @typedef {Single | readonly (Single | readonly (Single | readonly (Single | readonly Single[])[])[])[]} Child
 */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} [attributes] listeners as `onclick`, `style` as an object
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export const svg = (tag, attributes, ...children) =>
  filled(
    /** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag)),
    attributes,
    children,
  );

/**
 * @template {HTMLElement | SVGElement} Kind
 * @param {Kind} node
 * @param {Record<string, any>} attributes
 * @param {any[]} children
 * @returns {Kind}
 */
function filled(node, attributes = {}, children = []) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.setAttribute("class", value);
    else if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

/** @type {(place: Element, ...children: Child[]) => void} */
export const show = (place, ...children) =>
  place.replaceChildren(.../** @type {any[]} */ (children).flat(Infinity).filter(Boolean));

// Show something newer in a place; the keyboard stays where it was if that is still there.
/**
 * @param {HTMLElement} place
 * @param {...Child} children
 */
export function redraw(place, ...children) {
  const active = /** @type {HTMLElement | null} */ (document.activeElement);
  const key = place.contains(active) ? active?.dataset.key : undefined;
  show(place, ...children);
  if (key !== undefined)
    /** @type {HTMLElement | null} */ (place.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus({
      preventScroll: true,
    });
}

/**
 * @param {string[]} headings
 * @param {{cells: Child[], open?: (() => void) | null, key?: string | null}[]} rows
 * @param {{caption?: string, numeric?: number[]}} [options]
 */
export function table(headings, rows, { caption = "", numeric = [] } = {}) {
  const head = el(
    "tr",
    {},
    headings.map((text, index) =>
      el("th", { class: numeric.includes(index) ? "num" : null, scope: "col" }, text),
    ),
  );
  const body = rows.map(({ cells, open, key = null }) => {
    const row = el(
      "tr",
      open ? { class: "link", tabindex: "0", "data-key": key } : {},
      cells.map((cell, index) => el("td", { class: numeric.includes(index) ? "num" : null }, cell ?? "")),
    );
    if (open) {
      row.addEventListener("click", open);
      row.addEventListener("keydown", (event) => {
        if (event.key === "Enter") open();
      });
    }
    return row;
  });
  return el(
    "table",
    {},
    caption ? el("caption", { class: "sr" }, caption) : null,
    el("thead", {}, head),
    el("tbody", {}, body),
  );
}

/** @type {(sentence: string, command?: string) => HTMLElement} */
export const empty = (sentence, command = "") =>
  el("div", { class: "empty" }, el("p", {}, sentence), command ? el("code", {}, command) : null);

// A name cut in the middle: both ends tell names apart.
/** @type {(name: string, most: number) => string} */
export const middle = (name, most) =>
  name.length <= most
    ? name
    : `${name.slice(0, Math.ceil((most - 1) / 2))}…${name.slice(name.length - Math.floor((most - 1) / 2))}`;

/** @type {(count: number, one: string, many?: string) => string} */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
// Made once: that takes milliseconds.
const NUMBERS = new Intl.NumberFormat("en-US");
/** @type {(value: number) => string} */
export const number = (value) => NUMBERS.format(Number(value));

/** @type {Intl.DateTimeFormat | undefined} */
let clocks; // made once, when it is needed: that takes milliseconds
/** @type {(time: string | Date) => string} */
export function clock(time) {
  clocks ??= new Intl.DateTimeFormat([], {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  });
  return clocks.format(time instanceof Date ? time : Date.parse(time));
}

/**
 * @param {string} resource
 * @param {number} value in the unit of the table: thousandths of cpu, bytes
 */
export function amount(resource, value) {
  if (resource === "cpu")
    return value % 1000 && value < 10000 ? `${value}m` : number(+(value / 1000).toFixed(1));
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")) {
    const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let place = 0;
    while (value >= 1024 && place < units.length - 1) {
      value /= 1024;
      place += 1;
    }
    return `${+value.toFixed(1)}${units[place]}`;
  }
  return number(value);
}

/** @param {string | Date | null} time */
export function age(time) {
  if (!time) return "";
  const seconds = Math.max(
    0,
    (Date.now() - (time instanceof Date ? time.getTime() : Date.parse(time))) / 1000,
  );
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** @type {(index: number) => string} */
export const colour = (index) => `var(--c${((index % 8) + 8) % 8})`;
// Colours of plugins that reject nodes, as names of variables: no green, which means that a node fits.
const REJECTIONS = [0, 1, 3, 4, 5, 6, 7];
/** @type {(index: number) => string} */
export const rejection = (index) => `--c${REJECTIONS[index % REJECTIONS.length]}`;
/** @type {(name: string) => string} */
export const real = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
