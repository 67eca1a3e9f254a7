// Everything shown comes from /stowplan/v1: documents on request, and a stream of changes.

const PREFIX = "/stowplan/v1";
// The server sends a sign of life every two seconds. After so many milliseconds without one, what is shown is old.
const SILENCE = 5000;
// Answers that are kept, so that one can go on looking while the server does not answer.
const KEPT = 60;

export class ApiError extends Error {
  /**
   * @param {number} code of HTTP, 0 for a server that does not answer
   * @param {string} message
   * @param {string} [field] the field of a question that is wrong
   */
  constructor(code, message, field = "") {
    super(message);
    this.code = code;
    this.field = field;
  }
}

const kept = new Map(); // by path: the last answer, the oldest path first
let lost = false;

/**
 * A document. While the connection is lost, the one that was loaded last.
 * @param {string} path below /stowplan/v1
 * @returns {Promise<any>} raises ApiError
 */
export async function get(path) {
  if (lost && kept.has(path)) return structuredClone(kept.get(path));
  if (lost) throw new ApiError(0, "This was not loaded before the connection was lost.");
  let response;
  try {
    response = await fetch(PREFIX + path, { headers: { Accept: "application/json" } });
  } catch {
    if (kept.has(path)) return structuredClone(kept.get(path));
    throw new ApiError(0, "The server cannot be reached.");
  }
  const text = await response.text();
  let document = {};
  try {
    document = JSON.parse(text);
  } catch {
    if (response.ok) throw new ApiError(response.status, "The server's answer is not JSON.");
  }
  if (!response.ok) throw new ApiError(response.status, document.message || response.statusText);
  kept.delete(path);
  kept.set(path, document);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return structuredClone(document);
}

// The answer to a question that is tried on a copy of the cluster. Aborting the signal ends the work.
export async function ask(question, body, signal) {
  if (lost) throw new ApiError(0, "The server cannot be reached.");
  let response;
  try {
    response = await fetch(`${PREFIX}/${question}`, {
      method: "POST",
      headers: { Accept: "application/json", "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    throw new ApiError(0, error.name === "AbortError" ? "Ended." : "The server cannot be reached.");
  }
  const found = await response.json().catch(() => ({}));
  if (response.ok) return found;
  const [cause] = found.details?.causes ?? [];
  throw new ApiError(
    response.status,
    cause?.message || found.message || response.statusText,
    cause?.field ?? "",
  );
}

/** @type {(key: string) => string} */
export const podPath = (key) => `/pods/${key.split("/").map(encodeURIComponent).join("/")}`;
/** @type {(id: string) => string} */
export const groupPath = (id) => {
  const [kind, ...rest] = id.split("/");
  return `/${kind}s/${rest.map(encodeURIComponent).join("/")}`;
};
/** @type {(kind: string, key: string) => string} */
export const workloadPath = (kind, key) => `/${kind}s/${key.split("/").map(encodeURIComponent).join("/")}`;
/** @type {(name: string) => string} */
export const nodePath = (name) => `/nodes/${encodeURIComponent(name)}`;

// Listeners by event name. `lost` and `back` say whether the server is heard, `ended` that the session is over.
export class Stream extends EventTarget {
  constructor() {
    super();
    this.heard = Date.now();
    this.about = "";
    this.connect();
    setInterval(() => this.check(), 1000);
  }

  // Also tell when this pod, node or group changes: `pod/shop/web-1`, "" for none.
  follow(about) {
    if (about === this.about) return;
    this.about = about;
    this.connect();
  }

  connect() {
    this.source?.close();
    const source = new EventSource(
      `${PREFIX}/stream${this.about ? `?about=${encodeURIComponent(this.about)}` : ""}`,
    );
    this.source = source;
    for (const name of ["hello", "nodes", "queue", "decisions", "about"]) {
      source.addEventListener(name, (event) => {
        if (source !== this.source) return;
        this.found();
        this.dispatchEvent(new CustomEvent(name, { detail: JSON.parse(event.data) }));
      });
    }
    source.onerror = () => {
      if (source === this.source) this.broken(source.readyState === EventSource.CLOSED);
    };
  }

  // The seconds since the last word of the server.
  get age() {
    return (Date.now() - this.heard) / 1000;
  }

  check() {
    if (Date.now() - this.heard > SILENCE) this.lose();
    this.dispatchEvent(new CustomEvent("age", { detail: this.age }));
  }

  lose() {
    if (lost) return;
    lost = true;
    this.dispatchEvent(new CustomEvent("lost", { detail: new Date(this.heard) }));
  }

  // A closed stream was refused: the session may be over, or the server is starting.
  async broken(closed) {
    this.lose();
    if (!closed) return;
    const answer = await fetch(PREFIX, { headers: { Accept: "application/json" } }).catch(() => null);
    if (answer?.status === 401) {
      this.dispatchEvent(new CustomEvent("ended", { detail: (await answer.json()).message }));
    } else setTimeout(() => this.connect(), 2000);
  }

  found() {
    this.heard = Date.now();
    if (!lost) return;
    lost = false;
    this.dispatchEvent(new CustomEvent("back"));
  }

  on(name, listener) {
    const heard = (event) => listener(event.detail);
    this.addEventListener(name, heard);
    return () => this.removeEventListener(name, heard);
  }
}
