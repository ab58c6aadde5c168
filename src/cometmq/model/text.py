"""Text for log lines and error messages: foreign text on one line and of limited length, and plurals."""


def printable(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def cut(text: str, most: int) -> str:
    """Replace the middle of a long text with its length."""
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail]} ... ({len(text)} characters) ... {text[-tail:]}"


def label_value(text: str) -> str:
    """Escape the value of a label for Prometheus's text format."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def plural(count: int, one: str, many: str = "") -> str:
    """Return `one` if the count is 1, otherwise `many`, which defaults to `one` with an s."""
    return one if count == 1 else many or f"{one}s"
