"""Which pages of the dashboard the documentation shows, and how their pictures are taken."""

from pathlib import Path
from typing import NamedTuple

from tests.dashboard.shop import BILLING, MAILING, ORDERS, PACKING

ROOT = Path(__file__).parents[2]
SHOWN = ROOT / "docs" / "operate" / "dashboard"
TAKEN = ROOT / "build" / "screens" / "docs"
WIDTH, HEIGHT, HEIGHT_MAX = 1100, 640, 900
SIZE_MAX = 100_000  # Bytes of one.


class Pictured(NamedTuple):
    """A page and what must stand on it before its picture is taken.

    Attributes:
        path: its address; `{id}` and `{place}` are those of a message that was traced.
        shows: a selector of what is looked for.
    """

    path: str
    shows: str


PICTURES = {
    "topic": Pictured(f"/topic?name={ORDERS}", f"main >> text={BILLING}"),
    "message": Pictured("/message?{place}&as=json", "main pre >> text=customer"),
    "trace": Pictured("/trace?id={id}", f"main >> text={PACKING}"),
    "dead-letters": Pictured(f"/dead/group?name={MAILING}", "main tbody tr"),
    # The last two: their curves are the longer.
    "group": Pictured(f"/group?name={BILLING}", ".chart canvas"),
    "overview": Pictured("/", "#rates canvas"),
}
