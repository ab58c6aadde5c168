"""Counts the failed logins of the last minute, against guessing of passwords. Callers pass the time."""

from collections import OrderedDict

WINDOW_MS = 60_000
OF_NAME_MAX = 5
OF_ADDRESS_MAX = 30
_KEYS_MAX = 10_000


class LoginAttempts:
    """Recent failed logins by address, and by pair of address and user name, for at most 10,000 of these keys.

    Failures from one address do not lock the user out at other addresses.
    """

    def __init__(self) -> None:
        self._failed: OrderedDict[tuple[str, str | None], list[int]] = OrderedDict()

    def wait_ms(self, address: str, name: str, now_ms: int) -> int:
        """Return the time until this address may try to log in with this name again, ms; 0 for now."""
        return max(
            self._wait(key, most, now_ms)
            for key, most in (
                ((address, name), OF_NAME_MAX),
                ((address, None), OF_ADDRESS_MAX),
            )
        )

    def failed(self, address: str, name: str, now_ms: int) -> None:
        """Count an attempt as failed. Call it before the password check, so that concurrent attempts are counted, too."""
        for key in ((address, name), (address, None)):
            times = self._failed.setdefault(key, [])
            times.append(now_ms)
            del times[:-OF_ADDRESS_MAX]
            self._failed.move_to_end(key)
        while len(self._failed) > _KEYS_MAX:
            self._failed.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures of this pair of address and name, and the last one of the address, after a login."""
        self._failed.pop((address, name), None)
        if times := self._failed.get((address, None)):
            times.pop()

    def _wait(self, key: tuple[str, str | None], most: int, now_ms: int) -> int:
        times = [each for each in self._failed.get(key, ()) if now_ms - each < WINDOW_MS]
        return 0 if len(times) < most else times[-most] + WINDOW_MS - now_ms
