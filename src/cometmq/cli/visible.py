"""Text of others, made harmless: what would steer a terminal or turn its line round is shown escaped."""


def visible(text: str) -> str:
    """`text` without what would steer a terminal: a sender must not write on our user's screen."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
