// Everything shown comes from /stowplan/v1: documents on request, and a stream of changes.

const PREFIX = "/stowplan/v1";

export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export async function get(path) {
  let response;
  try {
    response = await fetch(PREFIX + path, { headers: { Accept: "application/json" } });
  } catch {
    throw new ApiError(0, "The server cannot be reached.");
  }
  const document = await response.json();
  if (!response.ok) throw new ApiError(response.status, document.message || response.statusText);
  return document;
}

export const podPath = (key) => `/pods/${key.split("/").map(encodeURIComponent).join("/")}`;
export const groupPath = (id) => {
  const [kind, ...rest] = id.split("/");
  return `/${kind}s/${rest.map(encodeURIComponent).join("/")}`;
};
export const nodePath = (name) => `/nodes/${encodeURIComponent(name)}`;

// Listeners by event name; `lost` and `back` say whether the stream is there.
export class Stream extends EventTarget {
  constructor() {
    super();
    this.lostSince = null;
    this.source = new EventSource(`${PREFIX}/stream`);
    for (const name of ["hello", "nodes", "queue", "decisions"]) {
      this.source.addEventListener(name, (event) => {
        this.found();
        this.dispatchEvent(new CustomEvent(name, { detail: JSON.parse(event.data) }));
      });
    }
    this.source.onerror = () => {
      if (this.lostSince === null) {
        this.lostSince = new Date();
        this.dispatchEvent(new CustomEvent("lost", { detail: this.lostSince }));
      }
    };
  }

  found() {
    if (this.lostSince === null) return;
    this.lostSince = null;
    this.dispatchEvent(new CustomEvent("back"));
  }

  on(name, listener) {
    const heard = (event) => listener(event.detail);
    this.addEventListener(name, heard);
    return () => this.removeEventListener(name, heard);
  }
}
