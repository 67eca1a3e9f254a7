"""Answers without what differs from run to run, so that they can be compared with recorded ones."""

import json
import re
from typing import Any, Final

_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME: Final = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d)?(?: UTC)?"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"
)
_AGE: Final = re.compile(r"(?<![\w.:=-])(?:\d+[smhd])+(?![\w.:-])")
_VERSION: Final = re.compile(
    r"(?i)(resource ?version[^:0-9,]*:? |current: |in record \(|resourceVersion[\\\"=: ]+)(\d+)"
)
_STRICT: Final = re.compile(r"(strict decoding error: )([^\n]+)")
_NODE_PORT: Final = re.compile(r":3[0-2]\d{3}/")
_CHOSEN: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_NODE_PORTS: Final = ("nodePort", "healthCheckNodePort")
_UNORDERED: Final = ("managedFields", "resourceRules", "nonResourceRules")
_ADMINISTRATORS: Final = ("bench-admin", "stowplan-admin")
_OURS: Final = '299 - "stored only:'
_EXPLAINED: Final = re.compile(r"(?:GROUP|KIND|VERSION|FIELD):|\s+\w+\t<")


class Normalizer:
    """Replaces data that differs from run to run by placeholders; equal data gets the same one throughout a
    story."""

    def __init__(self, ident: str, url: str) -> None:
        self._ident = ident
        self._url = url
        self._numbers: dict[tuple[str, object], str] = {}
        self._names: dict[str, str] = {}
        self._prefixes: list[str] = []

    def text(self, text: str) -> str:
        for name in sorted(self._names, key=len, reverse=True):
            text = text.replace(name, self._names[name])
        for prefix in self._prefixes:
            text = re.sub(re.escape(prefix) + _CHOSEN + "{5}(?![a-z0-9])", f"{prefix}<gen>", text)
        text = text.replace(self._ident, "<id>").replace(self._url, "<server>")
        text = text.replace(self._url.partition("://")[2], "<address>")
        text = _UUID.sub(lambda found: self._number("uid", found[0]), text)
        text = _TIME.sub("<time>", text)
        text = re.sub(r"kube-api-access-[a-z0-9]{5}", "kube-api-access-<gen>", text)
        text = re.sub(r"(too old resource version: \d+ \()\d+", r"\1<rv>", text)
        text = _STRICT.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text)
        return _VERSION.sub(lambda found: found[1] + ("0" if found[2] == "0" else "<rv>"), text)

    def header(self, values: list[str]) -> str:
        return self.text(", ".join(sorted(values)))

    def body(self, raw: bytes, content_type: str, sent: str) -> Any:
        """A body as it is compared; `sent` is what the request said."""
        if not raw:
            return None
        for prefix in re.findall(r'"generateName": "([^"]+)"', sent):
            if len(prefix) > 50 or not re.fullmatch("[a-z0-9.-]+", prefix):
                self._prefixes.append(prefix[:58])
        if "protobuf" in content_type:
            return "<protobuf>" if raw.startswith(b"k8s\0") else "<binary>"
        if "json" in content_type:
            try:
                return self.data(json.loads(raw), sent)
            except ValueError:
                pass
        return self.text(raw.decode("utf-8", "replace"))

    def data(self, data: Any, sent: str = "") -> Any:
        """JSON data as it is compared."""
        self._learn(data, sent)
        if isinstance(data, dict) and self._ident in str(data.get("groupVersion")):
            for resource in data.get("resources") or ():
                if "storageVersionHash" in resource:
                    resource["storageVersionHash"] = "<hash>"
        return self._walk(data, "", sent, in_list=False)

    def output(self, text: str, keep: str = "") -> str:
        """Output of a command."""
        if keep == "fields":
            text = "".join(line for line in text.splitlines(keepends=True) if _EXPLAINED.match(line))
        text = re.sub(r"/\S*/(LIVE|MERGED)-\d+", r"<tmp>/\1", self.text(text))
        text = _NODE_PORT.sub(":<nodeport>/", _AGE.sub("<age>", text))
        text = re.sub(r"\b10\.\d+\.\d+\.\d+\b", "<ip>", text)
        if keep == "sorted":
            text = "".join(sorted(text.splitlines(keepends=True)))
        return re.sub(r"(?m)[ \t]+$", "", re.sub(" {2,}", "  ", text))

    def _number(self, kind: str, value: object) -> str:
        key = (kind, value)
        if key not in self._numbers:
            count = sum(known == kind for known, _ in self._numbers)
            self._numbers[key] = f"<{kind}:{count + 1}>"
        return self._numbers[key]

    def _learn(self, data: Any, sent: str) -> None:
        """Take note of names and addresses that the server has chosen."""
        if isinstance(data, list):
            for element in data:
                self._learn(element, sent)
        if not isinstance(data, dict):
            return
        metadata = data.get("metadata")
        if isinstance(metadata, dict) and metadata.get("generateName"):
            prefix, name = metadata["generateName"], str(metadata.get("name", ""))
            if name.startswith(prefix) and name != prefix and name not in self._names:
                self._names[name] = prefix.replace(self._ident, "<id>") + self._number("gen", name)
        for key in ("clusterIP", "clusterIPs"):
            found = data.get(key)
            for address in found if isinstance(found, list) else [found]:
                if isinstance(address, str) and address not in ("", "None") and f'"{address}"' not in sent:
                    self._names.setdefault(address, self._number("ip", address))
        for key in sorted(data):
            self._learn(data[key], sent)

    def _walk(self, data: Any, key: str, sent: str, *, in_list: bool) -> Any:
        if isinstance(data, dict):
            return self._map(data, key, sent, in_list=in_list)
        if isinstance(data, list):
            found = [self._walk(element, key, sent, in_list=False) for element in data]
            if key in _UNORDERED:
                found.sort(key=lambda entry: json.dumps([entry.get("manager"), entry], sort_keys=True))
            return found
        if not isinstance(data, str):
            return data
        text = self.text(data)
        return _NODE_PORT.sub(":<nodeport>/", _AGE.sub("<age>", text)) if key == "cells" else text

    def _map(self, data: dict[str, Any], within: str, sent: str, *, in_list: bool) -> dict[str, Any]:
        is_list = "items" in data or "columnDefinitions" in data or str(data.get("kind", "")).endswith("List")
        named = str((data.get("metadata") or {}).get("name", "")) if within != "columnDefinitions" else ""
        result: dict[str, Any] = {}
        for key in sorted(data):
            value = data[key]
            if key == "description" and (within == "columnDefinitions" or named.startswith("system-")):
                continue
            if key == "resourceVersion" and isinstance(value, str) and value.isdigit() and value != "0":
                result[key] = "<rv:list>" if in_list else self._number("rv", value)
            elif key == "continue" and isinstance(value, str) and value:
                result[key] = "<continue>"
            elif key == "token" and isinstance(value, str) and value.count(".") == 2:
                result[key] = "<token>"
            elif key in _NODE_PORTS and isinstance(value, int) and value and str(value) not in sent:
                result[key] = self._number("nodeport", value)
            else:
                result[self.text(key)] = self._walk(value, key, sent, in_list=is_list and key == "metadata")
        return result


def comparable(answer: Any) -> Any:
    """An answer, recorded or not, without what belongs to the recording: who calls, and the version."""
    if isinstance(answer, dict):
        if "gitVersion" in answer:
            return {"major": answer.get("major"), "minor": answer.get("minor")}
        return {key: comparable(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [comparable(value) for value in answer]
    if isinstance(answer, str):
        for name in _ADMINISTRATORS:
            answer = answer.replace(name, "<admin>")
    return answer


def without_our_warnings(values: list[str]) -> list[str]:
    """Warnings but for those that kube-apiserver has no reason to give."""
    return [value for value in values if not value.startswith(_OURS)]
