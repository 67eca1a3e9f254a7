"""Reading the recordings."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


@cache
def recorded(path: str) -> Any:
    """A recording by its path without endings, such as `wire/writes`. It must not be changed."""
    plain = _HERE / f"{path}.json"
    if plain.exists():
        return json.loads(plain.read_text())
    return json.loads(gzip.decompress((_HERE / f"{path}.json.gz").read_bytes()))
