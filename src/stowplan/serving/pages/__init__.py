"""What is answered on the secure port to those who were let in."""

from stowplan.serving.pages.assembly import Sources, all_pages, checks
from stowplan.serving.pages.health import PING, Check
from stowplan.serving.pages.zpages import Component

__all__ = ["PING", "Check", "Component", "Sources", "all_pages", "checks"]
