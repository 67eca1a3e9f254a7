"""Text of several lines in a log line, and text without control characters, as klog writes them."""

from stowplan.gocompat.quoting import escape


def block(text: str) -> str:
    """A text of several lines, indented so that no line of it can be taken for another message."""
    lines = text.removesuffix("\n").split("\n")
    return "<\n" + "".join(f"\t{visible(line)}\n" for line in lines) + " >"


def visible(text: str) -> str:
    """A text without what would move a terminal's cursor; tabs and ends of lines stay."""
    if text.isprintable():
        return text
    return "".join(one if one in "\t\n\\" or one == '"' else escape(one) for one in text)
