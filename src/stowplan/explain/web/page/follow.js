// Drawing again while things change.

// At most once a second, and only after the last drawing is done.
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
