// The address says everything that is shown: the view with its choices, and what is open beside it.
// #/cluster?by=pool&fill=cpu~pod/shop/web-1 can be sent as it is.

// The view, its choices, and the pod, node or group that is open.
export function parse(hash) {
  const [where, detail = ""] = decodeURI(hash.slice(1) || "/cluster").split("~");
  const [path, query = ""] = where.split("?");
  return { path: path.slice(1) || "cluster", query: new URLSearchParams(query), detail };
}

const viewOf = (hash) => hash.slice(1).split("~")[0] || "/cluster";
const detailOf = (hash) => hash.slice(1).split("~")[1] ?? "";

export const withDetail = (hash, kind, name) => `#${viewOf(hash)}~${kind}/${encodeURI(name)}`;
export const withoutDetail = (hash) => `#${viewOf(hash)}`;

// The same view with nothing but these choices.
export const withOnly = (hash, choices) => withChoices(`#${viewOf(hash).split("?")[0]}`, choices);

// The same address with other choices; an empty one is left out.
export function withChoices(hash, choices) {
  const [path, before = ""] = viewOf(hash).split("?");
  const query = new URLSearchParams(before);
  for (const [name, value] of Object.entries(choices)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const detail = detailOf(hash);
  return `#${path}${query.size ? `?${query}` : ""}${detail ? `~${detail}` : ""}`;
}
