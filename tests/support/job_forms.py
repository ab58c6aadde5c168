"""Bodies of each format that the job `table` reads, and the row that each one says."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.support.job_worlds import (
    KINDS,
    NAMES,
    Bad,
    Number,
    a_text,
    a_value,
    column_names,
    ddl,
    json_body,
    read_json,
    read_value,
)  # fmt: skip
from tests.support.shop_bodies import avro_body

# Names that Avro and Protobuf take.
_PLAIN_NAMES = [name for name in NAMES if name.isascii() and name.isidentifier()]
_CSV_KINDS = [kind for kind in KINDS if "<" not in kind]
_SEPARATORS = (",", ";", "\t", "||")

Row = tuple[Any, ...]


class Form(Protocol):
    """Bodies of one format; the wider schema has a column more."""

    names: list[str]

    def options(self, *, wide: bool) -> dict[str, Any]:
        """What the job is told of them."""
        ...

    def body(self, *, wide: bool) -> tuple[bytes, Row | None]:
        """A body, and the row it says; None: it says none."""
        ...


class JsonForm:
    """Objects of JSON, or nearly so."""

    def __init__(self, chosen: Random, _folder: Path) -> None:
        self.chosen = chosen
        *names, more = column_names(chosen, 5)
        self.columns = {name: chosen.choice(KINDS) for name in names}
        self.wider = {**self.columns, more: "STRING"}
        self.names = [*self.wider]

    def options(self, *, wide: bool) -> dict[str, Any]:
        return {"schema": ddl(self.wider if wide else self.columns)}

    def body(self, *, wide: bool) -> tuple[bytes, Row | None]:
        columns = self.wider if wide else self.columns
        body = json_body(self.chosen, columns)
        try:
            return body, read_json(body, columns)
        except Bad:
            return body, None


class CsvForm:
    """Lines of CSV: with and without quotes, too short, too long, and such as are none."""

    def __init__(self, chosen: Random, _folder: Path) -> None:
        self.chosen = chosen
        *names, more = column_names(chosen, 5)
        self.columns = {name: chosen.choice(_CSV_KINDS) for name in names}
        self.wider = {**self.columns, more: "STRING"}
        self.names = [*self.wider]
        self.separator = chosen.choice(_SEPARATORS)

    def options(self, *, wide: bool) -> dict[str, Any]:
        given = self.separator.replace("\t", chosen_tab(self.chosen))
        schema = ddl(self.wider if wide else self.columns)
        return {"format": "csv", "separator": given, "schema": schema}

    def body(self, *, wide: bool) -> tuple[bytes, Row | None]:
        kinds = [*(self.wider if wide else self.columns).values()]
        cells = [self.cell(kind) for kind in kinds]
        line = self.separator.join(text for text, _ in cells)
        if self.chosen.random() < 0.2:
            return self.chosen.choice(
                (b"", b"\xff" + line.encode(), f"{line}{self.separator}".encode(), f"{line}\n\n".encode(),
                 f'"{line}'.encode(), f'{line}{self.separator}"a"b'.encode(), f"{line}\n{line}".encode())
            ), None  # fmt: skip
        ending = self.chosen.choice(("", "", "\n", "\r\n"))
        body = (line + ending).encode()
        try:
            row = tuple(
                read_cell(found, kind) for kind, (_, found) in zip(kinds, cells, strict=True)
            )
        except ValueError:
            return body, None
        return body, row

    def cell(self, kind: str) -> tuple[str, str | None]:
        """A value as the line has it, and what it says: None without quotes and letters."""
        if self.chosen.random() < 0.1:
            return "", None
        if kind == "STRING":
            text = a_text(self.chosen)
        elif kind == "BOOLEAN":
            text = self.chosen.choice(("true", "false", "TRUE", "False", "yes"))
        else:
            text = a_value(self.chosen, kind).strip('"') or "0"
        is_bare = text and not set(text) & set('"\r\n,;\t|')
        if is_bare and self.chosen.random() < 0.6:
            return text, text
        return '"' + text.replace('"', '""') + '"', text


def chosen_tab(chosen: Random) -> str:
    """A tab, as itself or as an option writes it."""
    return chosen.choice(("\t", "\\t"))


def read_cell(text: str | None, kind: str) -> Any:
    """The value of a column that a text of CSV says.

    Raises:
        ValueError: it says none.
    """
    if text is None or kind == "STRING":
        return text
    if kind == "BOOLEAN":
        return (
            {"true": True, "false": False}[text.lower()]
            if text.lower() in ("true", "false")
            else _refused(text)
        )
    return read_value(Number(text), kind)


def _refused(text: str) -> None:
    raise Bad(text)


def _integer(bits: int) -> Callable[[Random], Any]:
    end = 1 << (bits - 1)
    return lambda chosen: chosen.choice((0, -1, end - 1, -end, chosen.randrange(-end, end)))


def _floating(chosen: Random) -> float:
    return chosen.choice((0.0, 1e-300, -1.5e300, chosen.uniform(-1e9, 1e9)))


def _binary(chosen: Random) -> bytes:
    return chosen.randbytes(chosen.choice((0, 1, 9, 300)))


def _truth(chosen: Random) -> bool:
    return chosen.random() < 0.5


# A type of Avro, one of Protobuf, and a value of both.
_BINARY_KINDS: list[tuple[str, str, Callable[[Random], Any]]] = [
    ("long", "INT64", _integer(64)),
    ("int", "SINT32", _integer(32)),
    ("string", "STRING", a_text),
    ("double", "DOUBLE", _floating),
    ("boolean", "BOOL", _truth),
    ("bytes", "BYTES", _binary),
]


class _BinaryForm:
    """Fields with the same values in both binary formats; some are lists."""

    def __init__(self, chosen: Random, folder: Path) -> None:
        self.chosen, self.folder = chosen, folder
        self.names = chosen.sample(_PLAIN_NAMES, 5)
        self.kinds = [chosen.choice(_BINARY_KINDS) for _ in self.names]
        self.are_lists = [chosen.random() < 0.2 for _ in self.names]

    def fields(self, *, wide: bool) -> list[tuple[str, str, str, bool]]:
        found = [
            (name, avro, protobuf, is_list)
            for name, (avro, protobuf, _), is_list in zip(self.names, self.kinds, self.are_lists, strict=True)
        ]  # fmt: skip
        return found if wide else found[:-1]

    def row(self, *, wide: bool) -> list[Any]:
        chosen, count = self.chosen, len(self.names) - (not wide)
        return [
            [make(chosen) for _ in range(chosen.randrange(4))] if is_list else make(chosen)
            for (_, _, make), is_list in zip(self.kinds[:count], self.are_lists[:count], strict=True)
        ]  # fmt: skip


class AvroForm(_BinaryForm):
    """Records of Avro, some cut or with bytes behind them; a field that is no list may be null."""

    def schema(self, *, wide: bool) -> dict[str, Any]:
        fields = [
            {
                "name": name,
                "type": {"type": "array", "items": kind} if is_list else ["null", kind],
            }
            for name, kind, _, is_list in self.fields(wide=wide)
        ]
        return {"type": "record", "name": "Row", "fields": fields}

    def options(self, *, wide: bool) -> dict[str, Any]:
        path = self.folder / f"{wide}.avsc"
        path.write_text(json.dumps(self.schema(wide=wide)))
        return {"format": "avro", "schema": str(path)}

    def body(self, *, wide: bool) -> tuple[bytes, Row | None]:
        schema, chosen = self.schema(wide=wide), self.chosen
        row = [
            None if chosen.random() < 0.2 and not isinstance(each, list) else each
            for each in self.row(wide=wide)
        ]
        whole = avro_body(schema, dict(zip(self.names, row, strict=False)))
        if chosen.random() < 0.25:
            return chosen.choice((whole[: chosen.randrange(len(whole))], whole + b"\0")), None
        return whole, tuple(row)


class ProtobufForm(_BinaryForm):
    """Messages of Protobuf, some without a field, with one twice, or with one that nobody knows."""

    def options(self, *, wide: bool) -> dict[str, Any]:
        path = self.folder / f"{wide}.pb"
        path.write_bytes(FileDescriptorSet(file=[self.file(wide=wide)]).SerializeToString())
        return {"format": "protobuf", "schema": str(path), "message": "made.Row"}

    def file(self, *, wide: bool) -> FileDescriptorProto:
        made = FileDescriptorProto(name="made.proto", package="made", syntax="proto3")
        message = made.message_type.add(name="Row")
        for number, (name, _, kind, is_list) in enumerate(self.fields(wide=wide), 1):
            message.field.add(
                name=name, number=number, type=FieldDescriptorProto.Type.Value(f"TYPE_{kind}"),
                label=FieldDescriptorProto.Label.Value(f"LABEL_{'REPEATED' if is_list else 'OPTIONAL'}"),
            )  # fmt: skip
        return made

    def body(self, *, wide: bool) -> tuple[bytes, Row | None]:
        chosen, pool = self.chosen, DescriptorPool()
        pool.Add(self.file(wide=wide))
        made = GetMessageClass(pool.FindMessageTypeByName("made.Row"))
        row, wanted = self.row(wide=wide), list[Any]()
        parts = []
        for name, value in zip(self.names, row, strict=False):
            nothing = [] if isinstance(value, list) else type(value)()
            found = value if chosen.random() < 0.85 else nothing
            wanted.append(found)
            if chosen.random() < 0.1 and not isinstance(value, list) and value != nothing:
                # The last of a field counts.
                wanted[-1] = value
                parts += [made(**{name: value}).SerializeToString()] * 2
            else:
                parts.append(made(**{name: found}).SerializeToString())
        chosen.shuffle(parts)
        whole = b"".join(parts) + (b"\x98\x06\x07" if chosen.random() < 0.2 else b"")
        if chosen.random() < 0.2:
            return whole + chosen.choice((b"\xff", b"\x07", b"\x0a\x7f", b"\x08")), None
        return whole, tuple(wanted)
