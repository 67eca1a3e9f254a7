"""KubeSchedulerConfiguration in the versions before v1, and files of any version and kind.

kube-scheduler refuses the older versions today, and so does `stowplan.config.load`. `read_any` reads them on
top of it: they become a document of today, which is then read as any other.

`versions` has what distinguishes the versions, `plugins` and `arguments` turn their plugins into today's,
`election`, `source` (of a Policy) and `configuration` the rest; `reading` is the entrance.
"""

from stowplan.config.old.reading import Fetch, document_of, read_any, read_any_file
from stowplan.config.old.source import PolicyReference

__all__ = ["Fetch", "PolicyReference", "document_of", "read_any", "read_any_file"]
