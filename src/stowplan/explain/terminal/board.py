"""The view of `stowplan top`: queue lanes, rate and causes on one screen of text.

It is made of a document, from a running scheduler or from the lists of a cluster that anybody schedules.
"""

from collections.abc import Sequence
from typing import Final

from stowplan.explain.document.pending import Cause
from stowplan.explain.document.queue import Board, CostsDocument, QueueEntry
from stowplan.explain.layout import PLAIN, Palette, cleaned, hanging, middle, moment, plural, span, visible
from stowplan.explain.states import LANES, NOT_CREATED, NOT_OURS, NOT_RUNNING

_BARS: Final = " ▁▂▃▄▅▆▇█"
_SHADE: Final = {"unschedulable": "yellow", "gated": "cyan", "backoff": "yellow"}
HISTORY: Final = 60
_ROOM_FOR_COSTS: Final = 12
"""Lines that must be left below the lanes for the costs to be shown."""


class Rates:
    """Pods bound a second over the last looks, from what the scheduler says or from how many have nodes."""

    def __init__(self) -> None:
        self.history: list[float] = []
        self._before: tuple[float, int] | None = None

    def add(self, board: Board, now: float) -> float | None:
        rate = board.rate
        if rate is None and board.assigned is not None:
            before, self._before = self._before, (now, board.assigned)
            if before is not None and now > before[0]:
                rate = max(board.assigned - before[1], 0) / (now - before[0])
        if rate is not None:
            self.history = [*self.history, rate][-HISTORY:]
        return rate


def render(
    board: Board,
    rate: float | None,
    history: Sequence[float] = (),
    *,
    palette: Palette = PLAIN,
    now: float,
    height: int = 24,
    width: int = 100,
) -> list[str]:
    """The lines of the view; causes and pods as far as there is room."""
    board, width = cleaned(board), min(width, 100)
    lines = [*_head(board, rate, history, palette, width), "", *_lanes(board, palette, width), ""]
    left = max(height - len(lines) - 1, 4)
    causes = _causes(board, palette, width)
    oldest = _oldest(board.oldest, palette, now, width)
    costs = _costs(board.costs, palette, width)
    costs = costs[: max(left // 3, 3)] if left >= _ROOM_FOR_COSTS else []
    left -= len(costs) + 1 if costs else 0
    lines += causes[: left if len(oldest) < 3 else max(left * 2 // 3, 3)]
    if costs:
        lines += ["", *costs]
    rest = height - len(lines) - 2
    if oldest and rest >= 3:
        lines += ["", *oldest[:rest]]
    return lines


def _head(
    board: Board, rate: float | None, history: Sequence[float], palette: Palette, width: int
) -> list[str]:
    first = f"{palette.paint(board.title, 'bold')} · source: {board.source}"
    parts = []
    if board.nodes is not None:
        parts.append(f"{board.nodes:,} nodes")
    if board.assigned is not None:
        parts.append(f"{board.assigned:,} pods placed")
    waits = "pod waits" if board.waiting == 1 else "pods wait"
    parts.append(palette.paint(f"{board.waiting:,} {waits}", "bold", "yellow" if board.waiting else "green"))
    if rate is not None:
        parts.append(f"{rate:,.1f} pods/s {_spark(history[-20:])}".rstrip())
    if board.latency:
        parts.append(f"p50 {_duration(board.latency.p50)}, p99 {_duration(board.latency.p99)}")
    return [*hanging("", first, width), " · ".join(parts)]


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _spark(values: Sequence[float]) -> str:
    """A small picture of the last rates."""
    most = max(values, default=0.0)
    if len(values) < 2 or not most:
        return ""
    return "".join(_BARS[round(value / most * (len(_BARS) - 1))] for value in values)


def _lanes(board: Board, palette: Palette, width: int) -> list[str]:
    """A line for every lane, with a bar for its share of the fullest one."""
    most = max((board.lanes.get(name, 0) for name in LANES), default=0)
    room = max(width - 30, 10)
    lines = []
    for name in LANES:
        count = board.lanes.get(name)
        if count is None:
            continue
        bar = "█" * (-(-count * room // most) if most else 0)
        lines.append(f"  {name:<13} {count:>9,}  {palette.paint(bar, _SHADE.get(name, 'green'))}".rstrip())
    return lines


def _causes(board: Board, palette: Palette, width: int) -> list[str]:
    if not (board.causes or board.elsewhere or board.not_started or board.not_created):
        return hanging("", board.headline, width)
    lines: list[str] = []
    for heading, causes in (
        (plural(len(board.causes), "cause"), board.causes),
        (NOT_OURS, board.elsewhere),
        (NOT_RUNNING, board.not_started),
        (NOT_CREATED, board.not_created),
    ):
        if causes:
            lines += [palette.paint(heading, "bold"), *_lines_of(causes, palette, width)]
    return lines


def _lines_of(causes: Sequence[Cause], palette: Palette, width: int) -> list[str]:
    lines: list[str] = []
    figure = len(f"{causes[0].count:,}")
    names = [middle(cause.name, 30) for cause in causes]
    long = max(map(len, names))
    for name, cause in zip(names, causes, strict=True):
        begin = f"  {cause.count:>{figure},}  {name:<{long}}  "
        helped = f"{palette.paint('helped by:', 'green')} {cause.help}"
        lines.append(_cut(begin + cause.reason, width))
        lines.append(_cut(" " * len(begin) + helped, width))
    return lines


def _costs(costs: CostsDocument | None, palette: Palette, width: int) -> list[str]:
    """Whose scheduling cycles took the time: a line for each owner of pods."""
    if costs is None or not costs.items:
        return []
    items, everybody = costs.items, costs.seconds
    names = [middle(f"{item.namespace}/{item.owner}", max(width - 65, 24)) for item in items]
    long = max(map(len, names))
    lines = [
        palette.paint("cycles spent by template", "bold"),
        f"  {'':<{long}}  {'share':>5}  {'time':>9}  {'attempts':>9}  {'mean':>9}  {'longest':>9}",
    ]
    for name, item in zip(names, items, strict=True):
        share = f"{item.seconds / everybody:.0%}" if everybody else ""
        times = [_duration(one) for one in (item.seconds, item.mean, item.worst)]
        line = f"  {name:<{long}}  {share:>5}  {times[0]:>9}  {item.attempts:>9,}"
        line += "".join(f"  {one:>9}" for one in times[1:])
        if item.slow:
            slow = f"{item.slow:,} slow"
            line += f"  {palette.paint(slow, 'yellow')}"
        lines.append(_cut(line, width))
    return lines


def _oldest(pods: Sequence[QueueEntry], palette: Palette, now: float, width: int) -> list[str]:
    if not pods:
        return []
    names = [
        f"{middle(pod.group, 30)} ({pod.pods} pods)" if pod.group else middle(pod.pod, 40) for pod in pods
    ]
    long = max(map(len, names))
    lines = [palette.paint("waiting longest", "bold")]
    for name, pod in zip(names, pods, strict=True):
        since = moment(pod.since or None)
        age = "" if since is None else span(now - since)
        lines.append(_cut(f"  {age:>6}  {name:<{long}}  {pod.brief}", width))
    return lines


def _cut(line: str, width: int) -> str:
    """A line that fits; what is cut off is at the end of a sentence, not of a name."""
    line = line.rstrip()
    extra = visible(line) - width
    return line if extra <= 0 else f"{line[: len(line) - extra - 1]}…"
