"""Changes attributes of topics and groups: `+key` sets and `-key` removes one, with the signs of RocketMQ 5.3.3."""

from collections.abc import Iterable, Mapping

from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.text import in_quotes


def altered(
    known: Mapping[str, str], changes: Iterable[tuple[str, str | None]]
) -> dict[str, str]:
    """Return the attributes after changes, which are pairs of a signed key and, for `+`, the new value.

    Raises:
        RequestError: INVALID_PARAMETER: A key has no sign or is empty, or is to be set without a value.
    """
    found = dict(known)
    for signed, value in changes:
        key = signed[1:]
        if signed.startswith("+") and key and value is not None:
            found[key] = value
        elif signed.startswith("-") and key:
            found.pop(key, None)
        else:
            raise RequestError(
                ResponseCode.INVALID_PARAMETER,
                f"attribute {in_quotes(signed, 80)}: write +key=value to set it and -key to remove it",
            )
    return found


def altered_by_text(known: Mapping[str, str], text: str | None) -> dict[str, str]:
    """Return attributes after changes such as `+cleanup.policy=COMPACTION,-reserve.time`; see `altered`."""
    words = (word.strip() for word in (text or "").split(","))
    parts = (word.partition("=") for word in words if word)
    return altered(known, ((key, value if sign else None) for key, sign, value in parts))
