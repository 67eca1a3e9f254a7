"""JSON merge patch (RFC 7386): maps are merged, null deletes, everything else replaces."""

from typing import Any


def merge(document: Any, patch: Any) -> Any:
    """The document with the patch laid over it; what the patch does not mention is shared."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged
