"""HttpSource: scores from an HTTP service, with a cache and a timeout.

A plugin must not wait in the scheduling cycle. So a thread fetches the figures of all nodes now and then, and
Score looks them up. If the service does not answer in time, the last figures count until they are too old;
then all nodes get the same score.

Run it: python examples/http_source.py
"""

import json
import threading
import time
import urllib.request
import weakref

import msgspec

from stowplan.framework import Plugin


class HttpSourceArgs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    url: str
    timeout_seconds: float = 1.0
    refresh_seconds: float = 10.0
    max_age_seconds: float = 60.0


class Source:
    """The figures of an HTTP service: `{"node-0": 17, …}`, 0 to 100.

    They are fetched when the source is made, so that the first pod finds some, and then in a thread.
    """

    def __init__(self, args):
        self._args = args
        self._figures = {}
        self._fetched = float("-inf")
        self.failures = 0

    def start(self):
        self.fetch()
        over = threading.Event()
        weakref.finalize(self, over.set)
        arguments = (weakref.ref(self), self._args.refresh_seconds, over)
        threading.Thread(target=refresh, args=arguments, name="http-source", daemon=True).start()

    def figures(self):
        """The last figures, none if they are too old."""
        age = time.monotonic() - self._fetched
        return self._figures if age <= self._args.max_age_seconds else {}

    def fetch(self):
        try:
            with urllib.request.urlopen(self._args.url, timeout=self._args.timeout_seconds) as answer:
                figures = json.load(answer)
        except (OSError, ValueError):
            self.failures += 1
            return
        self._figures, self._fetched = figures, time.monotonic()


def refresh(reference, seconds, over):
    """Fetch until the plugin is gone: a reload of the configuration makes a new one."""
    while not over.wait(seconds) and (source := reference()) is not None:
        source.fetch()
        del source


class HttpSource(Plugin[HttpSourceArgs]):
    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.source = Source(args)
        self.source.start()

    def score_node(self, cycle, pod, node):
        figure = self.source.figures().get(node.name, 0)
        return min(max(int(figure), 0), 100)


def main():
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from stowplan.testing import cluster, node, pod

    class Service(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"quiet": 90, "busy": 5}).encode())

        def log_message(self, *args):
            """Keep quiet."""

    service = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "HttpSource", "weight": 10}]}},
                "pluginConfig": [
                    {"name": "HttpSource", "args": {"url": f"http://127.0.0.1:{service.server_port}/load"}}
                ],
            }
        ],
    }
    c = cluster(nodes=[node("quiet"), node("busy")], config=config, plugins=[HttpSource])
    source = c.frameworks["default-scheduler"].plugins["HttpSource"].source
    while not source.figures():
        time.sleep(0.01)
    print("web:", c.schedule(pod("web")).node)
    service.shutdown()
    service.server_close()
    source.fetch()
    print("the service is gone:", source.failures, "failure,", c.schedule(pod("api")).node)


if __name__ == "__main__":
    main()
