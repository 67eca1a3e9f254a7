// What is on the page for others: a link, the details as an HTML file, the view as a picture.

import { get } from "./api.js";
import { el, show } from "./dom.js";
import { htmlOf, keep, pngOf } from "./save.js";

const place = document.getElementById("place");
const beside = document.getElementById("beside");

const dialog = el("dialog", { "aria-label": "Share" });

export function sharing() {
  document.body.append(dialog);
  document.getElementById("share").addEventListener("click", async () => {
    dialog.showModal();
    show(dialog, el("h1", {}, "Share"), el("p", { class: "quiet" }, "…"));
    show(dialog, contents(await linkHere()));
  });
}

// The address of what is shown, for others: by the shared page of `stowplan view --share`, or this one.
async function linkHere() {
  const shared = await get("/link").catch(() => null);
  if (shared?.link)
    return { link: shared.link + location.hash, note: "Opens for everybody who has it, until it ends." };
  if (shared)
    return {
      link: "",
      note: "This page is for you alone. stowplan view --share serves it to others; stowplan run --page behind the login of the cluster.",
    };
  return { link: location.href, note: "Opens for everybody who may sign in here, with their own rights." };
}

function contents({ link, note }) {
  const said = el("p", { class: "quiet", role: "status" });
  const step = (words, work) =>
    el(
      "button",
      {
        onclick: async () => {
          said.textContent = "…";
          said.textContent = await work().catch((error) => `That did not work: ${error.message}`);
        },
      },
      words,
    );
  const open = !beside.hidden && beside.firstElementChild;
  const name = document.title.split(" · ")[0].replace(/[^\w.-]+/g, "-");
  return [
    el("h1", {}, "Share"),
    el("h2", {}, "A link to what is shown"),
    link &&
      el(
        "div",
        { class: "command" },
        el("code", {}, link),
        step("Copy the link", () => copied(link)),
      ),
    el("p", { class: "quiet" }, note),
    el("h2", {}, "As a file"),
    el(
      "div",
      { class: "bar-row" },
      open &&
        step("Details as HTML", async () => {
          keep(await htmlOf([open], document.title), `${name}.html`);
          return `${name}.html opens from disk, without a server.`;
        }),
      step("View as HTML", async () => {
        keep(await htmlOf([place.firstElementChild], document.title), `${name}-view.html`);
        return `${name}-view.html opens from disk, without a server.`;
      }),
      step("View as PNG", async () => {
        keep(await pngOf([place.firstElementChild]), `${name}.png`);
        return `${name}.png is saved.`;
      }),
      open &&
        step("Details as PNG", async () => {
          keep(await pngOf([open]), `${name}-details.png`);
          return `${name}-details.png is saved.`;
        }),
    ),
    said,
    el("p", {}, el("button", { onclick: () => dialog.close() }, "Close")),
  ];
}

async function copied(link) {
  await navigator.clipboard.writeText(link);
  return "Copied.";
}
