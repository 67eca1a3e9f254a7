"""Options of metrics: disabled ones, and allow-lists for label values."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from prometheus_client.samples import Sample

from stowplan.api.fielderrors import Path, invalid
from stowplan.gocompat.quoting import quote
from stowplan.gocompat.yamltext import load_yaml

UNEXPECTED: Final = "unexpected"
"""The value of a label that replaces disallowed ones."""

_METRIC: Final = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL: Final = "[a-zA-Z_][a-zA-Z0-9_]*"
_is_metric: Final = re.compile(_METRIC).fullmatch
_is_metric_and_label: Final = re.compile(f"{_METRIC},{_LABEL}").fullmatch
_PATH: Final = Path("metrics")
_KEYS: Final = (
    f'must have keys with format `metricName,labelName` where metricName matches "{_METRIC}" '
    f'and labelName matches "{_LABEL}"'
)

Allowed = Mapping[str, frozenset[str]]
"""The allowed values of a family's labels, by label."""


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """The flags `--show-hidden-metrics-for-version`, `--disabled-metrics`, `--allow-metric-labels` and
    `--allow-metric-labels-manifest`.

    Label values are given by `<metric>,<label>`, separated by commas. The manifest is a YAML file of the same
    pairs, alone or under `allowListMapping`.
    """

    show_hidden_for_version: str = ""
    disabled: tuple[str, ...] = ()
    allowed_labels: Mapping[str, str] | None = None
    allowed_labels_manifest: str = ""

    def problems(self, minor: int) -> list[str]:
        """Validation errors, for a scheduler of version 1.`minor`."""
        return [
            *_hidden_problems(self.show_hidden_for_version, minor),
            *_disabled_problems(self.disabled),
            *_allowed_problems(self.allowed_labels or {}),
            *_manifest_problems(self.allowed_labels_manifest),
            *self._both_problems(),
        ]

    def visibility(self) -> "Visibility":
        """The parsed options. Raises OSError or ValueError if the manifest cannot be read."""
        listed: Mapping[str, str] = self.allowed_labels or {}
        if self.allowed_labels is None and self.allowed_labels_manifest:
            listed = _read_manifest(self.allowed_labels_manifest)
        allowed: dict[str, dict[str, frozenset[str]]] = {}
        for key, values in listed.items():
            metric, label = key.split(",", 1)
            allowed.setdefault(metric, {})[label] = frozenset(values.split(","))
        return Visibility(frozenset(filter(None, self.disabled)), allowed=allowed)

    def _both_problems(self) -> list[str]:
        if self.allowed_labels is None or not self.allowed_labels_manifest:
            return []
        given = {
            "showHiddenMetricsForVersion": self.show_hidden_for_version,
            "disabledMetrics": list(self.disabled),
            "allowListMapping": dict(self.allowed_labels),
            "allowListMappingManifest": self.allowed_labels_manifest,
        }
        shown = {name: value for name, value in given.items() if value}
        detail = "cannot specify both allowListMapping and allowListMappingManifest"
        return [invalid(_PATH, shown, detail)]


@dataclass(slots=True)
class Visibility:
    """Which metrics and label values are exposed. `unexpected` counts the disallowed values of the last
    collection."""

    disabled: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    allowed: Mapping[str, Allowed] = field(default_factory=dict)
    unexpected: int = 0
    _found: int = 0

    def begin(self) -> None:
        """A collection begins."""
        self._found = 0

    def end(self) -> None:
        """A collection ended."""
        self.unexpected = self._found

    def folded(self, samples: Iterable[Sample], kind: str, allowed: Allowed) -> list[Sample]:
        """Samples with disallowed label values merged into one series.

        Counters and buckets can be summed at any time, so allow-lists cost nothing while counting.
        """
        merged: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for sample in samples:
            labels = {name: _constrained(name, value, allowed) for name, value in sample.labels.items()}
            counts = kind == "counter" or sample.name.endswith("_count")
            if counts and labels != sample.labels:
                self._found += int(sample.value)
            key = (sample.name, tuple(labels.items()))
            merged[key] = merged.get(key, 0) + sample.value
        return [Sample(name, dict(labels), value) for (name, labels), value in merged.items()]


SHOW_EVERYTHING: Final = Visibility()


def _constrained(name: str, value: str, allowed: Allowed) -> str:
    values = allowed.get(name)
    return value if values is None or value in values else UNEXPECTED


def _hidden_problems(version: str, minor: int) -> list[str]:
    previous = f"1.{minor - 1}"
    if version in ("", previous):
        return []
    detail = f"must be omitted or have the value '{previous}'; only the previous minor version is allowed"
    return [invalid(_PATH.child("showHiddenMetricsForVersion"), version, detail)]


def _disabled_problems(names: tuple[str, ...]) -> list[str]:
    for name in names:
        if not _is_metric(name):
            detail = f'must be fully qualified metric names matching "^{_METRIC}$", got {quote(name)}'
            return [invalid(_PATH.child("disabledMetrics"), list(names), detail)]
    return []


def _allowed_problems(listed: Mapping[str, str], path: str = _PATH.child("allowListMapping")) -> list[str]:
    if all(map(_is_metric_and_label, listed)):
        return []
    return [invalid(path, dict(sorted(listed.items())), _KEYS)]


def _manifest_problems(file: str) -> list[str]:
    if not file:
        return []
    path = _PATH.child("allowListMappingManifest")
    try:
        listed = _read_manifest(file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return [invalid(path, file, f"failed to read allow list manifest: open {file}: {reason}")]
    except ValueError as error:
        return [invalid(path, file, f"failed to parse allow list manifest: {error}")]
    problems = _allowed_problems(listed, path)
    if not problems:
        return []
    return [invalid(path, file, f"invalid allow list mapping in manifest: [{', '.join(problems)}]")]


def _read_manifest(file: str) -> dict[str, str]:
    with open(file, encoding="utf-8") as opened:
        read = load_yaml(opened.read())
    if read is None:
        return {}
    if isinstance(read, dict) and isinstance(read.get("allowListMapping"), dict):
        read = read["allowListMapping"]
    try:
        return msgspec.convert(read, dict[str, str])
    except msgspec.ValidationError as error:
        raise ValueError(f"expected a map from metric,label to values: {error}") from None
