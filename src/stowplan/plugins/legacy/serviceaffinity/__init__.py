"""ServiceAffinity: pods of a service together where some label has one value, or spread over its values."""

from stowplan.plugins.legacy.serviceaffinity.plugin import ServiceAffinity

__all__ = ["ServiceAffinity"]
