// What is on the page, as a file: HTML that opens from disk without a server, or a picture. Both are made of a copy
// of the elements, in which nothing can be pressed any more.

import { el } from "./dom.js";

const STYLES = ["/stowplan/base.css", "/stowplan/app.css", "/stowplan/try.css"];
const EDGE = 20; // pixels around a picture
const LARGEST = 16384; // pixels of a side of a canvas, in all browsers

// The elements as an HTML document. It asks nobody for anything: the policy in it forbids that, and scripts.
export async function htmlOf(parts, title) {
  const body = await still(parts);
  const head = el(
    "head",
    {},
    el("meta", { charset: "utf-8" }),
    el("meta", {
      "http-equiv": "Content-Security-Policy",
      content:
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
    }),
    el("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }),
    el("title", {}, title),
    el("style", {}, await styles()),
  );
  const saved = el("p", { class: "quiet" }, `Saved ${new Date().toLocaleString()} from ${location.host}`);
  body.append(saved);
  const page = el("html", { lang: "en" }, head, el("body", { class: "saved" }, body));
  return new Blob([`<!doctype html>\n${page.outerHTML}\n`], { type: "text/html" });
}

// The elements below each other as a picture, as sharp as the screen.
export async function pngOf(parts) {
  const width = Math.max(...parts.map((part) => part.clientWidth)) + 2 * EDGE;
  const body = await still(parts);
  const style = el("style", {}, await styles());
  const root = el("body", { class: "saved", xmlns: "http://www.w3.org/1999/xhtml" }, style, body);
  Object.assign(root.style, { width: `${width}px`, height: "auto", margin: "0", padding: `${EDGE}px` });
  const height = measured(body, width);
  const scale = Math.min(window.devicePixelRatio || 1, LARGEST / width, LARGEST / height);
  const source = new XMLSerializer().serializeToString(root);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">` +
      `<foreignObject width="100%" height="100%">${source}</foreignObject></svg>`,
  )}`;
  await image.decode();
  const canvas = el("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.drawImage(image, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

// Offer a file to be kept.
export function keep(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// The height of a copy when it is laid out, out of sight.
function measured(body, width) {
  const box = el("div", { class: "saved", "aria-hidden": "true" }, body.cloneNode(true));
  Object.assign(box.style, { position: "absolute", left: "-100000px", top: "0", width: `${width}px` });
  box.style.padding = `${EDGE}px`;
  document.body.append(box);
  const height = Math.ceil(box.getBoundingClientRect().height);
  box.remove();
  return height;
}

// A copy of elements that stands still: canvases are pictures, choices are words, nothing can be pressed.
async function still(parts) {
  return el(
    "div",
    {},
    parts.map((part) => {
      for (const one of part.querySelectorAll("details")) one.dispatchEvent(new Event("fill"));
      const copy = part.cloneNode(true);
      const canvases = [...part.querySelectorAll("canvas")];
      const selects = [...part.querySelectorAll("select")];
      copy.querySelectorAll("canvas").forEach((one, index) => one.replaceWith(picture(canvases[index])));
      copy.querySelectorAll("select").forEach((one, index) => {
        one.replaceWith(el("b", {}, selects[index].selectedOptions[0]?.textContent ?? ""));
      });
      for (const one of copy.querySelectorAll("input, textarea")) one.replaceWith(entered(one));
      for (const one of copy.querySelectorAll(".copy, .past")) one.remove();
      // What would be loaded when it is unfolded is not there.
      for (const one of copy.querySelectorAll("details"))
        if (one.textContent === one.firstElementChild?.textContent) one.remove();
      for (const one of copy.querySelectorAll("button, a")) {
        if (one.getAttribute("aria-label") === "Close") one.remove();
        else one.replaceWith(el("span", { class: one.getAttribute("class") }, ...one.childNodes));
      }
      for (const one of [copy, ...copy.querySelectorAll("[tabindex], [role=button]")]) {
        one.removeAttribute("tabindex");
        one.removeAttribute("id");
      }
      return copy;
    }),
  );
}

// What was entered in a field, in words.
function entered(field) {
  if (field.type === "checkbox") return field.checked ? "☑ " : "☐ ";
  if (field.type === "textarea") return el("pre", {}, field.value);
  return field.type === "range" ? "" : el("b", {}, field.value);
}

function picture(canvas) {
  const image = el("img", { src: canvas.toDataURL(), alt: canvas.getAttribute("aria-label") ?? "" });
  Object.assign(image.style, { width: `${canvas.clientWidth}px`, height: `${canvas.clientHeight}px` });
  return image;
}

// The rules of the page, with the colours that it has now: light or dark stays as it was when it was saved.
async function styles() {
  const texts = await Promise.all(STYLES.map(async (path) => (await fetch(path)).text()));
  const now = getComputedStyle(document.documentElement);
  const names = new Set(texts.join("").match(/--[\w-]+(?=:)/g));
  const colours = [...names].map((name) => `${name}: ${now.getPropertyValue(name)};`);
  return `${texts.join("\n")}\n:root, .saved { ${colours.join(" ")} }`;
}
