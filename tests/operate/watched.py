"""A cluster of processes under a real Prometheus (Debian's package), with the rules of deploy/prometheus, only faster.

`promtool` and `prometheus` must be there: a suite that cannot run must fail.
"""

import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support import processes
from tests.support.elected_group import ElectedBrokers
from tests.support.iofault import FaultyDisk
from tests.support.loop_disk import LoopDisk
from tests.support.pages import ROOT
from tests.support.processes import Program, free_port

RULES = ROOT / "deploy" / "prometheus"
BOARD = ROOT / "deploy" / "grafana" / "cometmq.json"
ALERTS = RULES / "alerts.yml"
# How far rules look back in tests, seconds; their `for` is one second.
WINDOW = 8
# What a busy test machine may cause by itself.
OF_MACHINE = {"CometMQLoopDelayed", "CometMQFlushSlow", "CometMQGroupElectsOften"}
# Times, bytes and counts that would have to be there before an alert may fire, and what the tests have instead.
SHORTER = {
    "cometmq:group_topic_lag:seconds > 600": "cometmq:group_topic_lag:seconds > 5",
    "cometmq_oldest_half_message_seconds > 600": "cometmq_oldest_half_message_seconds > 5",
    "cometmq_replication_gap_seconds > 30": "cometmq_replication_gap_seconds > 2",
    "cometmq_elected_lag_bytes > 268435456": "cometmq_elected_lag_bytes > 100",
    "min_over_time(cometmq:elected_term:max[15m]) > 3": "min_over_time(cometmq:elected_term:max[15m]) > 0",
}
SMALL_MEGABYTES = 1_024
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}


def tool(name: str) -> str:
    """The path of a program of Prometheus.

    Raises:
        RuntimeError: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"there is no {name} here: apt-get install prometheus")
    return found


def alerts() -> list[dict[str, Any]]:
    """The alert rules that operators get."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def faster(rules: str) -> str:
    """The same rules with short times: what they ask does not change."""
    for before, after in SHORTER.items():
        rules = rules.replace(before, after)
    rules = re.sub(r"\bfor: \d+\w", "for: 1s", rules)
    rules = re.sub(r"\[\d+[mh]\]", f"[{WINDOW}s]", rules)
    return re.sub(r"\boffset \d+[mh]", f"offset {WINDOW}s", rules)


@dataclass
class Prometheus:
    """A running Prometheus.

    Attributes:
        port: Where it answers.
        seen: The alerts that have fired since it started.
    """

    port: int
    seen: set[str] = field(default_factory=set)

    def _get(self, path: str, **asked: str) -> Any:
        address = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return json.load(answer)["data"]

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The samples that a query has now."""
        found: list[dict[str, Any]] = self._get("/api/v1/query", query=query)["result"]
        return found

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        now = {
            each["labels"]["alertname"]
            for each in self._get("/api/v1/alerts")["alerts"]
            if each["state"] == "firing"
        }
        self.seen |= now
        return now

    def series(self, job: str) -> int:
        """How many targets of a job are up."""
        return len(self.ask(f'up{{job="{job}"}} == 1'))


@contextmanager
def prometheus(
    folder: Path, brokers: Sequence[int], nameservers: Sequence[int]
) -> Iterator[Prometheus]:
    """Prometheus with the configuration and rules of deploy/prometheus; it looks each second."""
    folder.mkdir()
    config = yaml.safe_load((RULES / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    del config["alerting"]
    ports = {"cometmq-broker": brokers, "cometmq-nameserver": nameservers}
    for job in config["scrape_configs"]:
        targets = [f"127.0.0.1:{port}" for port in ports.pop(job["job_name"])]
        job["static_configs"] = [{"targets": targets}]
    assert not ports
    for name in config["rule_files"]:
        (folder / name).write_text(faster((RULES / name).read_text()))
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        tool("prometheus"), f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with Program(command, log=folder / "prometheus.log", port=port):
        yield Prometheus(port)


def promtool(*words: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [tool("promtool"), *map(str, words)],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
    )


@dataclass
class Watched:
    """A cluster with its Prometheus.

    Attributes:
        folder: Where its files are.
        names: Its two nameservers.
        brokers: broker-a, its slave, broker-b and broker-d.
        group: The members of broker-g, which elect their leader.
        pages: The ports of metrics of all of them, and those of the nameservers.
        disk: The disk of broker-b, which can be made slow.
        small: The disk of broker-d, which is soon full.
    """

    folder: Path
    names: list[Program]
    brokers: dict[str, Program]
    group: ElectedBrokers
    pages: dict[str, int]
    disk: FaultyDisk
    small: LoopDisk
    prometheus: Prometheus

    @property
    def nameservers(self) -> str:
        return ";".join(each.address for each in self.names)

    def broker_d(self, nameservers: str | None = None, **settings: object) -> Program:
        """Another broker-d on the same ports and store, not yet started."""
        return processes.broker(
            self.folder / "d",
            nameservers or self.nameservers,
            port=self.brokers["d"].port,
            settings=_of_page("broker-d", self.pages["d"], {**_on(self.small), **settings}),
        )


def _of_page(name: str, port: int, settings: dict[str, object]) -> dict[str, object]:
    # Tests run on disks that are used up to 90 %.
    return {
        "brokerName": name, "metricsPromExporterPort": port, "diskSpaceWarningLevelRatio": 100,
        **settings,
    }  # fmt: skip


def _on(disk: LoopDisk) -> dict[str, object]:
    """Settings of a broker that has its store there, and looks often how full it is."""
    store = disk.root / "store"
    return {
        "storePathRootDir": store, "storePathCommitLog": store / "commitlog",
        "cleanResourceInterval": 500,
    }  # fmt: skip


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    """Start two nameservers, two masters of which one has a slave, a third one, a group of three, and Prometheus beside them."""
    with ExitStack() as stack:
        pages = {name: free_port() for name in ("names-1", "names-2", "a", "slave", "b", "d")}
        names = [
            stack.enter_context(
                processes.nameserver(
                    folder / f"names-{number}", metricsPromExporterPort=pages[f"names-{number}"]
                )
            )
            for number in (1, 2)
        ]
        both, disk = ";".join(each.address for each in names), FaultyDisk(folder / "disk")
        small = stack.enter_context(LoopDisk(folder / "small", megabytes=SMALL_MEGABYTES))
        brokers = {
            short: processes.broker(
                folder / short, both, settings=_of_page(f"broker-{name}", pages[short], settings)
            )
            for short, name, settings in (
                ("a", "a", {}), ("slave", "a", SLAVE), ("b", "b", {}), ("d", "d", _on(small)),
            )
        }  # fmt: skip
        disk.under(brokers["b"])
        group = ElectedBrokers(
            folder / "group", both, dLegerGroup="broker-g", brokerName="broker-g", diskSpaceWarningLevelRatio=100,
        )  # fmt: skip
        pages |= group.pages
        for programs in (brokers, group.members):
            stack.callback(_end_all, programs)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Program.start, [*brokers.values(), *group.members.values()]))
        own = [pages[each] for each in (*brokers, *group.members)]
        watching = stack.enter_context(
            prometheus(folder / "prometheus", own, [pages["names-1"], pages["names-2"]])
        )
        yield Watched(folder, names, brokers, group, pages, disk, small, watching)


def _end_all(programs: Mapping[str, Program]) -> None:
    """End those that run; tests may have put others in their places."""
    for program in programs.values():
        if program.process is not None and program.process.poll() is None:
            program.stop()


def other_version(folder: Path, version: str) -> dict[str, str]:
    """An environment in which an installed CometMQ has another version than this one."""
    folder.mkdir()
    # Python runs it at its start.
    (folder / "sitecustomize.py").write_text(
        f"import cometmq\ncometmq.__version__ = {version!r}\n"
    )
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])])}
