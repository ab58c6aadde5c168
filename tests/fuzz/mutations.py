"""Breaks good frames in many ways; the length in front always stays true, so the stream stays readable."""

import json
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.frames import parts_of

FRAMES = Path(__file__).resolve().parents[1] / "golden" / "frames"
# Values that have broken servers before: beyond every width, of the wrong kind, paths, controls, not text.
NASTY: list[object] = [
    *(
        "",
        "-1",
        "0",
        "2147483648",
        "-2147483649",
        "9223372036854775808",
        "1e9",
        "NaN",
        "0x10",
        " 1",
    ),
    *(
        "../../etc/passwd",
        "a/b",
        "%s%n",
        "\x00",
        "\x01\x02",
        "\r\n",
        "x" * 300,
        "é" * 128,
        "true",
        "null",
    ),
    *(None, True, -1, 2**31, 2**63, 2**64, 1.5, [], {}, ["a"], {"a": {"a": 1}}, "\ud800"),
]
CODES = [
    *range(-2, 60),
    *range(100, 110),
    *range(200, 345),
    351,
    361,
    900,
    1000,
    2**15,
    2**31 - 1,
]


def recorded(to: str) -> list[bytes]:
    """The requests that Java programs sent to the nameserver, or to the broker."""
    lines = (
        line
        for path in sorted(FRAMES.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    )
    values = (json.loads(line) for line in lines)
    return [
        bytes.fromhex(value["frame"])
        for value in values
        if value["to"].startswith(to) and value["answers"] is None
    ]


class Mutations:
    """An endless source of broken frames; the same seed gives the same frames."""

    def __init__(self, samples: Sequence[bytes], seed: int) -> None:
        self.samples = samples
        self.chance = random.Random(seed)
        self.ways: list[Callable[[int, bytes, bytes], bytes]] = [
            self.flipped,
            self.cut,
            self.other_field,
            self.other_field,
            self.other_member,
            self.lying_length,
            self.noise,
        ]

    def frame(self) -> bytes:
        """The next broken frame."""
        sample = self.chance.choice(self.samples)
        return self.chance.choice(self.ways)(*parts_of(sample))

    def flipped(self, kind: int, header: bytes, body: bytes) -> bytes:
        """Some bytes are others."""
        content = bytearray(header + body)
        for _ in range(self.chance.randint(1, 8)):
            content[self.chance.randrange(len(content))] = self.chance.randrange(256)
        return framed(kind, bytes(content[: len(header)]), bytes(content[len(header) :]))

    def cut(self, kind: int, header: bytes, body: bytes) -> bytes:
        """Header or body ends early."""
        if body and self.chance.random() < 0.5:
            return framed(kind, header, body[: self.chance.randrange(len(body))])
        return framed(kind, header[: self.chance.randrange(len(header))], body)

    def other_field(self, kind: int, header: bytes, body: bytes) -> bytes:
        """A field is missing, nasty, or new."""
        if kind != 0:
            return self.flipped(kind, header, body)
        values = json.loads(header)
        fields = values.get("extFields") or {}
        name = self.chance.choice([*fields, "unknown"])
        if self.chance.random() < 0.3:
            fields.pop(name, None)
        else:
            fields[name] = self.chance.choice(NASTY)
        values["extFields"] = fields
        return framed(kind, dumped(values), body)

    def other_member(self, kind: int, header: bytes, body: bytes) -> bytes:
        """Code, flag, opaque, language, version or all fields are something else."""
        if kind != 0:
            code = struct.pack(">H", self.chance.choice(CODES) & 0xFFFF)
            return framed(kind, code + header[2:], body)
        values = json.loads(header)
        if self.chance.random() < 0.5:
            values["code"] = self.chance.choice(CODES)
        else:
            values[self.chance.choice([*values])] = self.chance.choice(NASTY)
        return framed(kind, dumped(values), body)

    def lying_length(self, kind: int, header: bytes, body: bytes) -> bytes:
        """The header claims to be longer than its frame, or shorter than it is."""
        size = self.chance.choice(
            [0, 1, len(header) // 2, len(header) + len(body) + 1, 0xFFFFFF]
        )
        content = header + body
        return struct.pack(">II", 4 + len(content), kind << 24 | size) + content

    def noise(self, kind: int, header: bytes, body: bytes) -> bytes:
        """Nothing of it means anything, not even the kind."""
        header = self.chance.randbytes(self.chance.randrange(200))
        return framed(self.chance.choice([0, 1, kind, 2, 255]), header, body)


def framed(kind: int, header: bytes, body: bytes) -> bytes:
    """A frame whose lengths are right."""
    return (
        struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header))
        + header
        + body
    )


def dumped(values: object) -> bytes:
    """JSON with what no careful writer would put into it."""
    return json.dumps(values).encode("utf-8", "surrogatepass")
