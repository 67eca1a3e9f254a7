// A browser starts no worker from a file. For pages that are opened from the disk, the search runs in a frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const load = source => new Promise((resolve, reject) => {
        const script = frame.contentDocument.createElement("script")
        script.onload = resolve
        script.onerror = reject
        script.src = new URL(source, location.href)
        frame.contentDocument.body.append(script)
      })
      this.inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
      this.loaded = load(url)
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
