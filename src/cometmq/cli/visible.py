"""Escapes untrusted text before it is printed, so that it cannot send control sequences to a terminal."""


def visible(text: str) -> str:
    """Return `text` with unprintable characters escaped, so that a sender cannot control the user's terminal."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
