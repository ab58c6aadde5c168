"""The reference: Apache RocketMQ (Java, 5.3.3 unless a test names another version), on free ports.

The jars come through Maven once, into the project's cache folder. Heaps are small (tests send little) and
everything that Java writes (store, logs, home, temporary files) stays in the test's own folder.

By hand: `python -m tests.interop.reference FOLDER [key=value…]` starts both and stops them on Ctrl-C.
"""

import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.frames import ask
from tests.support.processes import (
    Program,
    answers,
    broker_port,
    free_port,
    wait_until,
    write_conf,
)
from tests.support.programs import run_program, until_killed

VERSION = "5.3.3"
NEWEST = "5.5.0"
HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("COMETMQ_CACHE") or HERE.parent.parent / ".cache")
NAMESERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"
MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
PROXY = "org.apache.rocketmq.proxy.ProxyStartup"
# A JVM that lives for seconds: a third less processor time up to its first answer.
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
QUICK_START = QUICK_COMPILER, "-XX:+UseSerialGC", "-XX:-UsePerfData"
# A server that might be asked for TLS makes a key and a certificate for each of its ports: 4 of the 7 s of a broker's start.
NO_TLS = "-Dtls.server.mode=disabled"
# Its logging library describes itself before anything else.
LOGBACK_NOISE = re.compile(r"\|-(?:INFO|WARN) in ")
MAVEN_TRIES = 4
MAVEN_SECONDS_MAX = 420

# What the broker reaches into by reflection; without it Java 17 refuses (bin/runbroker.sh of 5.3.3).
OPENS = [
    *("--add-opens", "java.base/java.nio=ALL-UNNAMED"),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED"),
    *("--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED"),
]


@contextlib.contextmanager
def turn(folder: Path) -> Iterator[Path]:
    """One process at a time makes what a folder has; the file that says when it was made."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / ".done"


def compiled(source: Path, version: str = VERSION) -> Path:
    """The folder of a class; compiled against the jars of a version where it is older than its source."""
    folder = CACHE / "classes" / version / source.stem
    with turn(folder) as done:
        if not done.exists() or done.stat().st_mtime < source.stat().st_mtime:
            quick = [f"-J{option}" for option in QUICK_START]
            path = f"{jars(version)}/*"
            command = (java("javac"), *quick, "-nowarn", "-d", folder, "-cp", path, source)
            run_program(*command, seconds=120)
            done.touch()
    return folder


def class_path(source: Path, version: str = VERSION) -> tuple[str, str]:
    """The options of a JVM that runs a class of ours beside those of a version."""
    return "-cp", f"{jars(version)}/*:{compiled(source, version)}"


@functools.cache
def quick_start(version: str = VERSION) -> tuple[str, ...]:
    """Options of a JVM with the jars of a version that lives for seconds: it reads classes that are already parsed, too."""
    if version != VERSION:  # So few start that recording takes what it saves.
        return QUICK_START
    file = CACHE / "java" / f"{version}-classes" / "parsed.jsa"
    with turn(file.parent) as done:
        if not done.exists():
            with tempfile.TemporaryDirectory() as folder:
                record_classes(version, Path(folder), file)
            done.touch()
    # Without the last one it would say so where the file does not fit this Java.
    return *QUICK_START, f"-XX:SharedArchiveFile={file}", "-Xlog:disable"


def record_classes(version: str, folder: Path, file: Path) -> None:
    """Write the classes of a broker that has started into a file (class data sharing); nearly all of a client's are among them."""
    options = *QUICK_START, NO_TLS
    names = nameserver(folder / "names", version=version, options=options)
    recorded = *options, "-XX:+RecordDynamicDumpInfo"
    recording = broker(folder / "broker", names.address, version=version, options=recorded)
    with served(names, recording):
        run_program(java("jcmd"), recording.pid, "VM.cds", "dynamic_dump", file)


def java(name: str = "java") -> str:
    """The path of a program of the JDK.

    Raises:
        RuntimeError: there is no JDK on this machine.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else None
    found = found or shutil.which(name)
    if found is None:
        raise RuntimeError(
            f"no {name} here: install a JDK 17 (Debian: openjdk-17-jdk-headless)"
        )
    return found


def maven(arguments: Sequence[str | Path]) -> None:
    """Run Maven; a registry that stumbles is asked again.

    Raises:
        RuntimeError: Maven is missing, or failed every time.
    """
    if shutil.which("mvn") is None:
        raise RuntimeError("no mvn here: install Maven (Debian: maven)")
    command = [
        "mvn",
        "-q",
        "-B",
        "-Dmaven.wagon.http.retryHandler.count=5",
        *map(str, arguments),
    ]
    said, env = "", {"MAVEN_OPTS": " ".join([os.environ.get("MAVEN_OPTS", ""), *QUICK_START])}
    for attempt in range(1, MAVEN_TRIES + 1):
        done = run_program(*command, seconds=MAVEN_SECONDS_MAX, status=None, env=env)
        if done.returncode == 0:
            return
        said = (done.stdout + done.stderr)[-2000:]
        time.sleep(2.0 * attempt)
    raise RuntimeError(f"Maven failed {MAVEN_TRIES} times:\n{said}")


def jars(version: str = VERSION) -> Path:
    """The folder with the jars of one version; fetched where they are not there yet."""
    text = (HERE / "reference.pom.xml").read_text()
    return fetched(text.replace(f">{VERSION}<", f">{version}<"), CACHE / "java" / version)


def jars_of(artifact: str, version: str = VERSION) -> Path:
    """The folder with the jars of one artifact of RocketMQ and all that it needs; fetched where they are not there yet."""
    one = f"<groupId>org.apache.rocketmq</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    pom = (
        "<project><modelVersion>4.0.0</modelVersion><groupId>cometmq</groupId><artifactId>one</artifactId>"
        f"<version>1</version><dependencies><dependency>{one}</dependency></dependencies></project>"
    )
    return fetched(pom, CACHE / "java" / f"{artifact}-{version}")


def fetched(pom: str, folder: Path) -> Path:
    """The folder with the jars that a pom asks for; fetched where they are not there yet."""
    with turn(folder) as done:
        if not done.exists():
            file = folder / "pom.xml"
            file.write_text(pom)
            maven(["-f", file, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"])
            done.touch()
    return folder


def command(
    main: str,
    folder: Path,
    arguments: Sequence[str | Path],
    *,
    heap: str,
    version: str = VERSION,
    options: Sequence[str] = (),
    path: Path | None = None,
) -> list[str]:
    """The command line of one Java program whose files stay in `folder`; `options` are the JVM's, its jars are in `path`."""
    for name in ("home/conf", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if version.startswith("4."):  # does not start without a file that says how to log
        for name in ("broker", "tools"):
            (folder / f"home/conf/logback_{name}.xml").write_text(
                '<configuration><root level="OFF"/></configuration>'
            )
    return [
        java(),
        *(f"-Xms{heap}", f"-Xmx{heap}", f"-XX:MaxDirectMemorySize={heap}", "-XX:-UsePerfData"),
        *OPENS,
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Duser.home={folder / 'home'}",
        f"-Drocketmq.home.dir={folder / 'home'}",
        *options,
        *("-cp", f"{path or jars(version)}/*", main),
        *map(str, arguments),
    ]


def plain_server(version: str) -> tuple[str, ...]:
    """Options of a server that starts quickly and is not asked for TLS."""
    return *quick_start(version), NO_TLS


def nameserver(
    folder: Path,
    *,
    port: int | None = None,
    version: str = VERSION,
    options: Sequence[str] | None = None,
    **settings: object,
) -> Program:
    """A Java nameserver; not yet started."""
    port = port or free_port()
    conf = write_conf(folder / "namesrv.conf", {"listenPort": port, **settings})
    options = plain_server(version) if options is None else options
    started = command(
        NAMESERVER, folder, ["-c", conf], heap="128m", version=version, options=options
    )
    return Program(started, log=folder / "nameserver.log", port=port)


def broker(
    folder: Path,
    nameservers: str,
    *,
    port: int | None = None,
    heap: str = "512m",
    version: str = VERSION,
    settings: Mapping[str, object] | None = None,
    options: Sequence[str] | None = None,
) -> Program:
    """A Java broker; not yet started. Its ports - 2 and + 1 are taken too.

    Benches give `options=()`: their Java compiles and collects as it does at its users.
    """
    port = port or broker_port()
    path = _broker_conf(folder, nameservers, port, settings or {})
    options = plain_server(version) if options is None else options
    started = command(BROKER, folder, ["-c", path], heap=heap, version=version, options=options)
    return Program(started, log=folder / "broker.log", port=port)


def proxy(
    folder: Path,
    nameservers: str,
    *,
    grpc_port: int,
    heap: str = "512m",
    settings: Mapping[str, object] | None = None,
    options: Sequence[str] | None = None,
) -> Program:
    """A Java broker with these settings and the gRPC proxy of local mode in its process; not yet started.

    It is ready when the gRPC port is open too.
    """
    port = broker_port()
    conf = _broker_conf(folder, nameservers, port, settings or {})
    written = {
        "proxyMode": "LOCAL",
        "grpcServerPort": grpc_port,
        "remotingListenPort": free_port(),
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": nameservers,
        "brokerConfigPath": str(conf),
        "localServeAddr": "127.0.0.1",
    }
    file = folder / "rmq-proxy.json"
    file.write_text(json.dumps(written))
    path = jars_of("rocketmq-proxy")
    options = (*QUICK_START, NO_TLS) if options is None else options
    started = command(PROXY, folder, ["-pc", file], heap=heap, options=options, path=path)
    is_ready = functools.partial(answers, grpc_port)
    return Program(started, log=folder / "proxy.log", port=port, is_ready=is_ready)


def _broker_conf(
    folder: Path, nameservers: str, port: int, settings: Mapping[str, object]
) -> Path:
    conf = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 0,
        "namesrvAddr": nameservers,
        "listenPort": port,
        "brokerIP1": "127.0.0.1",
        "storePathRootDir": folder / "store",
        "storePathCommitLog": folder / "store" / "commitlog",
        "mappedFileSizeCommitLog": 64 * 1024 * 1024,
        "autoCreateTopicEnable": "true",
        # Its own limit is 85 % of the disk; a full test machine is no reason to refuse.
        "diskMaxUsedSpaceRatio": 95,
        # A busy test machine is no reason either: it refuses what waited 200 ms by default.
        "waitTimeMillsInSendQueue": 10_000,
        "osPageCacheBusyTimeOutMills": 10_000,
        # Each flush of the timer's wheel compares 37 MB byte by byte: a third of a core all the time at 1,000 ms.
        "timerFlushIntervalMs": 60_000,
        # It looks at the clock without a rest until this time is over for the first time: 3 s of a core at each start.
        "transactionMetricFlushInterval": 300,
        **settings,
    }
    return write_conf(folder / "broker.conf", conf)


def mqadmin(
    folder: Path,
    nameservers: str,
    *arguments: str,
    seconds: float = 60,
    version: str = VERSION,
) -> str:
    """What `mqadmin ARGUMENTS` prints; its errors too, for it ends with 0 whatever happened."""
    words = [*arguments, "-n", nameservers]
    started = command(MQADMIN, folder, words, heap="128m", version=version, options=QUICK_START)
    done = run_program(*started, seconds=seconds, status=None)
    lines = (done.stdout + done.stderr).splitlines()
    return "\n".join(line for line in lines if not LOGBACK_NOISE.search(line))


def wait_registered(nameserver_address: str, broker_name: str = "broker-a") -> None:
    """Wait until the nameserver knows the broker: it listens some seconds before."""

    def is_known() -> bool:
        known = ask(nameserver_address, 106)[1]
        # Java's tells for a moment that there is a broker, and not yet where.
        return broker_name.encode() in known and b'"brokerAddrs":{}' not in known

    wait_until(is_known, seconds=60, what=f"{broker_name} at its nameserver")


@contextlib.contextmanager
def served(names: Program, broker: Program) -> Iterator[None]:
    """A nameserver and its broker, of either make, run and know each other; in the end both are killed."""
    with until_killed(names), until_killed(broker):
        wait_registered(names.address)
        yield


def route_of(nameserver_address: str, topic: str) -> bytes:
    """The route that the nameserver gives for a topic, as it is on the wire."""
    return ask(nameserver_address, 105, {"topic": topic})[1]


def main() -> int:
    """Start the reference and leave it running until Ctrl-C."""
    folder = Path(sys.argv[1]).resolve()
    settings = dict(pair.split("=", 1) for pair in sys.argv[2:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        nameserver(folder / "nameserver") as names,
        broker(folder / "broker", names.address, settings=settings) as served,
        contextlib.suppress(KeyboardInterrupt),
    ):
        wait_registered(names.address)
        print(f"nameserver {names.address}\nbroker {served.address}", flush=True)
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
