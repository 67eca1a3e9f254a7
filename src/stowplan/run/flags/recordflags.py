"""Flags about what is measured and what is logged."""

from typing import Final

from stowplan.gocompat.durations import Duration
from stowplan.run.flags.flag import Flag, Group
from stowplan.run.flags.kinds import BOOL, DURATION, LEVEL, MAP, STRING, STRINGS
from stowplan.run.flags.special import MODULE_LEVELS, QUANTITY

_ALPHA: Final = "Needs the feature gate LoggingAlphaOptions."
_BUFFER: Final = "Bytes of messages to hold back, such as 512 or 64Ki, when the output is split."

METRICS: Final = Group(
    "metrics",
    (
        Flag(
            "allow-metric-labels",
            MAP,
            {},
            "Values a label may have, as metric,label=value,value; others are counted as unexpected.",
        ),
        Flag(
            "allow-metric-labels-manifest",
            STRING,
            "",
            "YAML file with a map allowListMapping of the same form. The flag wins over the file.",
        ),
        Flag("disabled-metrics", STRINGS, (), "Full names of metrics to leave out."),
        Flag(
            "show-hidden-metrics-for-version",
            STRING,
            "",
            "Show metrics again that were hidden since this version, which must be the minor version before.",
        ),
    ),
)

LOGS: Final = Group(
    "logs",
    (
        Flag("log-flush-frequency", DURATION, Duration.of_seconds(5), "Longest time a message is held back."),
        Flag("log-json-info-buffer-size", QUANTITY, "0", f"[Alpha] {_BUFFER} {_ALPHA}"),
        Flag(
            "log-json-split-stream",
            BOOL,
            False,
            f"[Alpha] In JSON, errors to stderr, the rest to stdout. {_ALPHA}",
        ),
        Flag("log-text-info-buffer-size", QUANTITY, "0", f"[Alpha] {_BUFFER} {_ALPHA}"),
        Flag(
            "log-text-split-stream",
            BOOL,
            False,
            f"[Alpha] In text, errors to stderr, the rest to stdout. {_ALPHA}",
        ),
        Flag("logging-format", STRING, "text", "How messages are written: text or json."),
        Flag(
            "v",
            LEVEL,
            0,
            "How much is logged; 2 is usual, 4 follows every pod, 10 is everything.",
            shorthand="v",
        ),
        Flag("vmodule", MODULE_LEVELS, (), "Levels for parts of the program, as pattern=N,… (text only)."),
    ),
)
