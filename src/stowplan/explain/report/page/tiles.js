// Nodes as tiles on a canvas: 5,000 of them without scrolling. Groups are boxes with a heading, tiles are squares
// filled from below. The same numbers are in a table for screen readers.

import { real } from "./dom.js";

const HEADING = 20;
const GAP = 14;
const NARROWEST = 110; // a heading has room in so much

export class Tiles {
  constructor(canvas, { onHover, onOpen }) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.groups = [];
    this.places = [];
    this.size = 0;
    this.selected = -1;
    this.frame = null;
    /** @type {any[]} */
    this.looks = []; // of tiles that were painted, until what they show changes
    /** @type {(index: number) => any} */
    this.paint = () => null;
    canvas.addEventListener("mousemove", (event) => onHover(this.at(event), event));
    canvas.addEventListener("mouseleave", (event) => onHover(-1, event));
    canvas.addEventListener("click", (event) => {
      const index = this.at(event);
      if (index >= 0) onOpen(index);
    });
    canvas.addEventListener("keydown", (event) => this.move(event, onOpen));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  // groups: [{ name, nodes: [index…], bare: no count after the name }]; paint(index) → { fill: 0…1, colour, hatched, crossed, absent, marked }
  set(groups, paint) {
    this.groups = groups;
    this.paint = paint;
    this.looks = [];
    this.draw();
  }

  // The largest tiles that fit, over all numbers of groups beside each other; kept as long as nothing changes.
  layout(width, height) {
    const key = [width, height, ...this.groups.map((group) => group.nodes.length)].join();
    if (!this.groups.length) this.places = [];
    else if (key === this.key)
      this.places.forEach((place, index) => {
        place.group = this.groups[index];
      });
    else {
      let best = { size: 0, across: 1 };
      const most = Math.max(1, Math.min(this.groups.length, Math.floor(width / NARROWEST)));
      for (let across = 1; across <= most; across += 1) {
        let size = 150;
        while (size > best.size && size > 2 && !this.fits(size, width, height, across))
          size -= size > 16 ? 1 : 0.5;
        if (size > best.size) best = { size, across };
      }
      this.size = best.size;
      this.fits(best.size, width, height, best.across);
    }
    this.key = key;
  }

  fits(size, width, height, across) {
    this.places = [];
    let x = 0,
      y = 0,
      rowHeight = 0;
    for (const group of this.groups) {
      const box = this.box(group, size, (width - GAP * (across - 1)) / across);
      if (x > 0 && x + box.width > width + 0.5) {
        x = 0;
        y += rowHeight + GAP;
        rowHeight = 0;
      }
      this.places.push({ x, y, ...box, group });
      x += box.width + GAP;
      rowHeight = Math.max(rowHeight, box.height);
    }
    return y + rowHeight <= height;
  }

  // A group is as wide as its share, so that headings have room and groups stand below each other.
  box(group, size, share) {
    const nodes = group.nodes.length;
    const columns = Math.max(1, Math.min(nodes, Math.floor(share / size)));
    return {
      columns,
      width: Math.max(columns * size, Math.min(share, NARROWEST)),
      height: HEADING + Math.ceil(nodes / columns) * size,
    };
  }

  // Drawn with the next frame, once, however often it is asked for: 5,000 tiles take 20 ms.
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    const { canvas, context } = this;
    const width = canvas.clientWidth,
      height = canvas.clientHeight,
      ratio = window.devicePixelRatio || 1;
    if (!width || !height) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.layout(width, height);
    const tile = real("--tile"),
      text = real("--quiet"),
      accent = real("--accent"),
      line = real("--ground"),
      cross = real("--text");
    context.font = "12px system-ui, sans-serif";
    for (const place of this.places) {
      context.fillStyle = text;
      context.fillText(
        place.group.bare
          ? place.group.name
          : `${place.group.name || "(none)"}  ·  ${place.group.nodes.length}`,
        place.x,
        place.y + 13,
        place.width,
      );
      place.group.nodes.forEach((index, number) =>
        this.drawTile(place, index, number, { tile, accent, line, cross }),
      );
    }
  }

  drawTile(place, index, number, colours) {
    const { context, size } = this;
    const x = place.x + (number % place.columns) * size;
    const y = place.y + HEADING + Math.floor(number / place.columns) * size;
    const inner = size > 6 ? size - 2 : size > 3 ? size - 1 : size;
    const look = (this.looks[index] ??= this.paint(index));
    if (look.absent) {
      context.strokeStyle = colours.tile;
      context.lineWidth = 1;
      context.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
    } else {
      context.fillStyle = colours.tile;
      context.fillRect(x, y, inner, inner);
    }
    const filled = Math.max(0, Math.min(1, look.fill)) * inner;
    context.fillStyle = look.colour;
    context.fillRect(x, y + inner - filled, inner, filled);
    if (look.hatched && inner > 3) {
      context.strokeStyle = colours.line;
      context.lineWidth = 1;
      context.beginPath();
      for (let offset = 0; offset < inner * 2; offset += 4) {
        context.moveTo(x + Math.max(0, offset - inner), y + Math.min(offset, inner));
        context.lineTo(x + Math.min(offset, inner), y + Math.max(0, offset - inner));
      }
      context.stroke();
    }
    if (look.crossed && inner > 3) {
      context.strokeStyle = colours.cross;
      context.lineWidth = inner > 12 ? 2 : 1;
      context.beginPath();
      context.moveTo(x + 1, y + 1);
      context.lineTo(x + inner - 1, y + inner - 1);
      context.moveTo(x + inner - 1, y + 1);
      context.lineTo(x + 1, y + inner - 1);
      context.stroke();
    }
    if (look.marked) {
      context.strokeStyle = colours.accent;
      context.lineWidth = inner > 12 ? 2 : 1;
      context.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
    }
    if (inner > 70) this.write(x, y, inner, look);
    if (index === this.selected) {
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.strokeRect(x - 1, y - 1, inner + 2, inner + 2);
    }
  }

  // A large tile has room for words.
  write(x, y, inner, look) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, inner - 4, inner);
    context.clip();
    context.fillStyle = real("--text");
    context.font = "600 12px system-ui, sans-serif";
    context.fillText(look.name, x + 6, y + 18);
    context.font = "12px system-ui, sans-serif";
    context.fillText(look.words, x + 6, y + 34);
    context.restore();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left,
      y = event.clientY - box.top;
    for (const place of this.places) {
      const column = Math.floor((x - place.x) / this.size);
      const row = Math.floor((y - place.y - HEADING) / this.size);
      if (column < 0 || row < 0 || column >= place.columns) continue;
      const index = place.group.nodes[row * place.columns + column];
      if (index !== undefined && y >= place.y && y < place.y + place.height) return index;
    }
    return -1;
  }

  // Arrow keys move the selection, Enter opens it.
  move(event, onOpen) {
    const order = this.groups.flatMap((group) => group.nodes);
    const place = order.indexOf(this.selected);
    const columns = this.places[0]?.columns ?? 1;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    if (event.key === "Enter" && place >= 0) onOpen(this.selected);
    else if (event.key in steps) {
      this.selected = order[Math.max(0, Math.min(order.length - 1, place + steps[event.key]))];
      this.draw();
      event.preventDefault();
    }
  }
}
