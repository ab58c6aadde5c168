"""Options of Spark jobs: their definition, the common options, and the form of their values that distinguishes runs."""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal

from cometmq.model.address import split_address
from cometmq.model.errors import SettingsError
from cometmq.offline.place import same_place
from cometmq.spark.options import name_servers, words

# Options that name a folder or a URI, that name nameservers, and that list topics.
_PLACES = frozenset({"store", "archive", "to", "out"})
_CLUSTERS = frozenset({"nameserver", "to_nameserver", "source", "target"})
_TOPICS = frozenset({"topic", "topics", "from_topic"})

ProgressStyle = Literal["auto", "json", "none"]


def option(
    text: str, default: Any = MISSING, *, is_what: bool = True, is_argument: bool = False
) -> Any:
    """Return a dataclass field for an option of a Spark job, which is required if it has no default.

    Args:
        text: Help text.
        default: Default value.
        is_what: Whether it determines what is done, so that another value is another run with its own manifest; False
            if it only determines how.
        is_argument: Whether it is a positional argument on the command line.
    """
    metadata = {"help": text, "is_what": is_what, "is_argument": is_argument}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options common to all jobs: dry run, and how progress is shown."""

    dry_run: bool = option("Show what would be done, but do nothing.", False, is_what=False)
    progress: ProgressStyle = option(
        "Progress on stderr: a line on a terminal, JSON lines, or none.",
        "auto",
        is_what=False,
    )

    def check_given(self) -> None:
        """Raise SettingsError if a required option, or `state`, is an empty text."""
        for each in fields(self):
            is_needed = each.default is MISSING or each.name == "state"
            if is_needed and getattr(self, each.name) == "":
                is_argument = each.metadata["is_argument"]
                name = each.name if is_argument else f"--{each.name.replace('_', '-')}"
                raise SettingsError(f"{name} is empty: {each.metadata['help']}")

    def what(self) -> dict[str, Any]:
        """Return the values of options that determine what is done, by name, to tell runs apart.

        Places, nameservers and lists of topics have a canonical form.
        """
        return {
            each.name: _as_one(each.name, getattr(self, each.name))
            for each in fields(self)
            if each.metadata.get("is_what", True)
        }


def _as_one(name: str, value: Any) -> Any:
    """Return the canonical form of a place, of nameservers, topics, or any text with "://"; other values unchanged.

    It becomes part of a run's id. Paths become absolute: the same relative path is another folder in another working
    directory, and must not resume the run there. URIs are unified: a run to `s3a://` is the run to `s3://`. Nameservers
    and topics are sorted: a run that names them in another order or with blanks must not send or add its messages again.
    """
    if not isinstance(value, str) or not value:
        return value
    if name in _CLUSTERS:
        return ";".join(sorted(cluster_addresses(value)))
    if name in _TOPICS:
        return ",".join(sorted({*words(value)}))
    return same_place(value) if "://" in value or name in _PLACES else value


def cluster_addresses(nameservers: str) -> set[str]:
    """Return the addresses in a list of nameservers, in one form each: two lists that share one are of the same cluster.

    An invalid list is returned as it is: its error is reported where it is used.
    """
    try:
        addresses = [split_address(each) for each in name_servers(nameservers)]
    except ValueError:
        return {nameservers}
    hosts = [(host.lower(), port) for host, port in addresses]
    return {f"{'127.0.0.1' if host == 'localhost' else host}:{port}" for host, port in hosts}
