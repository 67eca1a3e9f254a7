"""stowplan: a Kubernetes scheduler in Python."""

from stowplan.runtime.formerpaths import keep_former_paths

__version__ = "0.1.0"

keep_former_paths()
