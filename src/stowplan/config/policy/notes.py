"""What there is to say about names and plugins that have no exact equivalent in kube-scheduler of today."""

from stowplan.plugins.catalog import CATALOG
from stowplan.plugins.legacy.names import PREDICATES, PRIORITIES, Meaning, OldName
from stowplan.plugins.registry import LEGACY


def is_foreign(plugin: str) -> bool:
    """Whether a plugin is one of ours that kube-scheduler of today does not have."""
    return plugin in LEGACY or (plugin in CATALOG and CATALOG[plugin].on_request)


def about(entry: OldName, meaning: Meaning) -> list[str]:
    """At most one line about a predicate or priority."""
    foreign = any(is_foreign(use.plugin) for use in meaning.uses)
    if not foreign and meaning.exact:
        return []
    line = f"{entry.name}: runs as {', '.join(use.plugin for use in meaning.uses)}"
    if foreign:
        line += f", which kube-scheduler does not have{_nearest(entry)}"
    if not meaning.exact:
        line += f"; it differs: {meaning.note}"
    return [line]


def about_plugin(name: str, runs_as: str) -> list[str]:
    """At most one line about a plugin of an earlier version, which may have another name here."""
    if not is_foreign(runs_as):
        return []
    renamed = f" runs as {runs_as}, which" if runs_as != name else ""
    nearest = next(
        (
            _nearest(entry)
            for entry in (*PREDICATES.values(), *PRIORITIES.values())
            if any(use.plugin == runs_as for use in entry.meaning.uses)
        ),
        "",
    )
    return [f"{name}:{renamed} kube-scheduler does not have{'' if renamed else ' this plugin'}{nearest}"]


def _nearest(entry: OldName) -> str:
    return f" (nearest to it there: {entry.today})" if entry.today else ""
