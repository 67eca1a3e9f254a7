// Charts of our own: lines over time as SVG, bars, stacked bars and funnels as boxes. Values come with the call,
// words and colours say the same thing twice.

import { colour, el, number, show, svg } from "./dom.js";

const MARGIN = { left: 46, right: 10, top: 8, bottom: 20 };

// A line over time. times: seconds since 1970 (dates) or since the beginning; series: [{ name, values }], null is a gap, drawn faintly.
export function lineChart({ title, times, series, unit = "", dates = true, height = 150, format = short }) {
  const keys = series.map((one, index) =>
    el(
      "span",
      { class: "key" },
      el("i", { style: { background: colour(index) } }),
      `${one.name} `,
      el("span"),
    ),
  );
  const when = el("span", { class: "quiet" });
  const canvas = el("div", {
    class: "canvas",
    role: "img",
    "aria-label": spoken(title, series, unit, format),
  });
  const words = (value) =>
    value === null || value === undefined ? "–" : `${format(value)}${unit && ` ${unit}`}`;
  const tell = (place) => {
    when.textContent = place === null ? "" : timeOf(times[place], dates);
    series.forEach((one, index) => {
      keys[index].lastChild.textContent = words(place === null ? lastOf(one.values) : one.values[place]);
    });
  };
  const draw = () => {
    if (canvas.clientWidth)
      show(canvas, picture({ times, series, dates, format, height, width: canvas.clientWidth, tell }));
  };
  new ResizeObserver(draw).observe(canvas);
  tell(null);
  return el(
    "figure",
    { class: "chart" },
    el("figcaption", {}, title ? el("b", {}, title) : null, keys, when),
    canvas,
  );
}

function picture({ times, series, dates, format, height, width, tell }) {
  const known = series.flatMap((one) => one.values).filter((value) => value !== null && value !== undefined);
  const inner = {
    width: Math.max(width - MARGIN.left - MARGIN.right, 20),
    height: height - MARGIN.top - MARGIN.bottom,
  };
  const steps = niceSteps(Math.max(...known, 0));
  const most = steps[steps.length - 1];
  const first = times[0] ?? 0,
    last = times[times.length - 1] ?? 1;
  const x = (time) => MARGIN.left + (inner.width * (time - first)) / Math.max(last - first, 1e-9);
  const y = (value) => MARGIN.top + inner.height * (1 - value / most);
  const frame = svg("svg", { height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const value of steps) {
    frame.append(
      svg("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
      svg("text", { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)),
    );
  }
  const marks = Math.max(2, Math.min(6, Math.floor(inner.width / 90)));
  for (let mark = 0; mark < marks; mark += 1) {
    const time = first + ((last - first) * mark) / (marks - 1);
    frame.append(
      svg(
        "text",
        {
          x: x(time),
          y: height - 4,
          "text-anchor": mark === 0 ? "start" : mark === marks - 1 ? "end" : "middle",
        },
        timeOf(time, dates, last - first),
      ),
    );
  }
  series.forEach((one, index) => {
    const dash = series.slice(0, index).some((other) => String(other.values) === String(one.values))
      ? "6 5"
      : null; // two lines in one place
    const point = (place) => `${x(times[place]).toFixed(1)},${y(one.values[place]).toFixed(1)}`;
    const runs = runsOf(one.values);
    const gaps = runs.slice(1).map((run, place) => `M${point(runs[place].at(-1))}L${point(run[0])}`);
    if (gaps.length)
      frame.append(
        svg("path", { class: "line", style: { stroke: colour(index), opacity: 0.3 }, d: gaps.join("") }),
      );
    for (const run of runs) {
      const points = run.map(point);
      if (series.length === 1)
        frame.append(
          svg("path", {
            class: "area",
            style: { fill: colour(index) },
            d: `M${x(times[run[0]])},${y(0)}L${points.join("L")}L${x(times[run[run.length - 1]])},${y(0)}Z`,
          }),
        );
      frame.append(
        run.length === 1
          ? svg("circle", {
              cx: x(times[run[0]]),
              cy: y(one.values[run[0]]),
              r: 2.5,
              style: { fill: colour(index) },
            })
          : svg("path", {
              class: "line",
              "stroke-dasharray": dash,
              style: { stroke: colour(index) },
              d: `M${points.join("L")}`,
            }),
      );
    }
  });
  const cursor = svg("line", {
    class: "cursor",
    y1: MARGIN.top,
    y2: MARGIN.top + inner.height,
    visibility: "hidden",
  });
  frame.append(cursor);
  frame.addEventListener("mousemove", (event) => {
    const place = nearest(times, first + ((event.offsetX - MARGIN.left) / inner.width) * (last - first));
    if (place === null) return;
    cursor.setAttribute("x1", `${x(times[place])}`);
    cursor.setAttribute("x2", `${x(times[place])}`);
    cursor.setAttribute("visibility", "visible");
    tell(place);
  });
  frame.addEventListener("mouseleave", () => {
    cursor.setAttribute("visibility", "hidden");
    tell(null);
  });
  return frame;
}

function nearest(times, time) {
  let best = null;
  times.forEach((one, place) => {
    if (best === null || Math.abs(one - time) < Math.abs(times[best] - time)) best = place;
  });
  return best;
}

// The places of values without a gap between them.
function runsOf(values) {
  const runs = [];
  let run = [];
  values.forEach((value, place) => {
    if (value !== null && value !== undefined) run.push(place);
    else if (run.length) {
      runs.push(run);
      run = [];
    }
  });
  return run.length ? [...runs, run] : runs;
}

function niceSteps(most) {
  if (!(most > 0)) return [0, 1];
  const rough = most / 3,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  return Array.from(
    { length: Math.ceil(most / step - 1e-9) + 1 },
    (_, index) => +(index * step).toPrecision(6),
  );
}

const lastOf = (values) => values.findLast((value) => value !== null && value !== undefined);

function spoken(title, series, unit, format) {
  const parts = series.map((one) => {
    const known = one.values.filter((value) => value !== null && value !== undefined);
    if (!known.length) return `${one.name}: no values`;
    return `${one.name}: last ${format(known[known.length - 1])} ${unit}, from ${format(Math.min(...known))} to ${format(Math.max(...known))}`;
  });
  return [title, ...parts].filter(Boolean).join("; ");
}

export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return `${+(+value).toPrecision(3)}`;
}

// A moment of a chart: a clock for dates, hours and minutes since the beginning otherwise.
function timeOf(seconds, dates, range = 0) {
  if (dates) {
    /** @type {Intl.DateTimeFormatOptions} */
    const shape =
      range > 86400
        ? { month: "short", day: "numeric", hour: "2-digit" }
        : range && range > 600
          ? { hour: "2-digit", minute: "2-digit" }
          : {};
    return range > 86400
      ? new Date(seconds * 1000).toLocaleString([], { ...shape, hour12: false })
      : new Date(seconds * 1000).toLocaleTimeString([], { ...shape, hour12: false });
  }
  const whole = Math.round(seconds),
    two = (value) => String(value).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return whole % 60 ? `${minutes}m${two(whole % 60)}s` : `${minutes}m`;
  return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
}

// Bars: [{ label, value, note }], the largest as wide as there is room unless `most` says otherwise.
export function barList(
  bars,
  { unit = "", most = Math.max(...bars.map((bar) => bar.value), 0), format = short } = {},
) {
  return el(
    "div",
    { class: "bars" },
    bars.map((bar) => [
      el("span", { class: "name", title: bar.label }, bar.label),
      el(
        "span",
        { class: "track" },
        el("i", { style: { width: `${most > 0 ? (100 * bar.value) / most : 0}%` } }),
      ),
      el(
        "span",
        { class: "num" },
        `${format(bar.value)}${unit && ` ${unit}`}${bar.note ? ` · ${bar.note}` : ""}`,
      ),
    ]),
  );
}

// How a total shrinks: every step a bar of its share.
export function funnel(total, steps, unit = "nodes", rest = "left") {
  const row = (sign, count, words, background) => [
    el("span", { class: "amount" }, `${sign}${number(count)}`),
    el(
      "span",
      { class: "track" },
      el("i", { class: "part", style: { width: `${(100 * count) / Math.max(total, 1)}%`, background } }),
      el("span", { class: "words" }, words),
    ),
  ];
  const left = total - steps.reduce((sum, step) => sum + step.value, 0);
  return el(
    "div",
    { class: "funnel" },
    row("", total, unit, "var(--c7)"),
    steps.map((step, index) =>
      row("−", step.value, [step.label, step.note].filter(Boolean).join(": "), colour(index)),
    ),
    row("= ", left, rest, "var(--good)"),
  );
}

// Sums with what they are made of: names of the parts; bars: [{ label, values, open }].
export function stackedBars(names, bars, { unit = "", open = null } = {}) {
  const sum = (bar) => bar.values.reduce((total, value) => total + value, 0);
  const most = Math.max(...bars.map(sum), 1e-9);
  const shown = names.map((_, index) => bars.some((bar) => bar.values[index]));
  const rows = bars.map((bar) => [
    open
      ? el("button", { class: "plain name", onclick: () => open(bar.label) }, bar.label)
      : el("span", { class: "name", title: bar.label }, bar.label),
    el(
      "div",
      {
        class: "stack",
        style: { width: `${(100 * sum(bar)) / most}%` },
        title: names.map((name, index) => `${name} ${number(bar.values[index])}`).join("\n"),
      },
      bar.values.map((value, index) =>
        el("i", {
          style: { width: `${(100 * value) / Math.max(sum(bar), 1e-9)}%`, background: colour(index) },
        }),
      ),
    ),
    el("span", { class: "num" }, `${number(sum(bar))}${unit && ` ${unit}`}`),
  ]);
  const keys = names.map(
    (name, index) =>
      shown[index] &&
      el("li", {}, el("span", { class: "swatch", style: { background: colour(index) } }), name),
  );
  return [el("div", { class: "bars" }, rows), el("ul", { class: "legend" }, keys)];
}
