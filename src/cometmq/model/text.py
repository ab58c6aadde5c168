"""Text for a line of a log or the message of an error: of others on one line and of a bounded length, and plurals."""


def printable(text: str) -> str:
    """The text on one line: what cannot be printed as its escape."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def cut(text: str, most: int) -> str:
    """A long text without its middle, with its length."""
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail]} ... ({len(text)} characters) ... {text[-tail:]}"


def label_value(text: str) -> str:
    """A label's value as it stands between quotes in Prometheus's text format."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def plural(count: int, one: str, many: str = "") -> str:
    """Return the word that goes with a number: `one` with 1, else `many`, by default `one` with an s."""
    return one if count == 1 else many or f"{one}s"
