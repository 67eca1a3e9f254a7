// Drawing again while things change.

/**
 * Draws when one of these events comes: at most once a second, and only after the last drawing is done.
 * @param {import("./api.js").Stream} stream
 * @param {string[]} names
 * @param {() => Promise<void> | void} draw
 * @returns {() => void} ends it
 */
export function following(stream, names, draw) {
  let waiting = null;
  let stopped = false;
  const again = () => {
    if (waiting !== null) return;
    waiting = setTimeout(async () => {
      waiting = null;
      if (!stopped) await draw();
    }, 1000);
  };
  const offs = names.map((name) => stream.on(name, again));
  return () => {
    stopped = true;
    clearTimeout(waiting);
    offs.forEach((off) => off());
  };
}
