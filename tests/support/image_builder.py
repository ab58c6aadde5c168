"""A Dockerfile without Docker: each step in a mount namespace, each layer an overlay over Debian's base system.

    image = build(Path("deploy/docker/Dockerfile"), context=Path(), cache=Path(".cache/image"))

The base is what debootstrap makes of Debian's packages. Layers are kept in `cache` under a hash of all that they were made
of, so that a second build does nothing. Needs root, as mounts and namespaces do.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.programs import run_program

# The certificates of this machine, which a step gets as a file in /tmp: a network may have an authority of its own.
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_BASE = re.compile(r"debian:(\w+)-slim")
# $1 lower layers, $2 upper, $3 work folder, $4 mount point, $5 certificates, then the command.
_STEP = """
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$4"
mount -t proc proc "$4/proc"
mount --rbind /dev "$4/dev"
mount -t tmpfs tmpfs "$4/tmp"
cp "$5" "$4/tmp/ca.crt"
shift 3; root=$1; shift 2
exec chroot "$root" "$@"
"""
# $1 lower layers, $2 upper, $3 work folder, $4 mount point, $5 lower layers of the source or nothing, $6 source, $7 target.
_COPY = """
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$4"
if [ -n "$5" ]; then mount -t overlay overlay -o "lowerdir=$5" "$6" && from="$6/$8"; else from="$6"; fi
mkdir -p "$4/$(dirname "$7")"
cp -a "$from" "$4/$7"
"""


@dataclass(frozen=True)
class Image:
    """What a Dockerfile makes.

    Attributes:
        layers: The layers, the last one first.
    """

    layers: tuple[Path, ...]
    env: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    folder: str = "/"
    volumes: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    health: tuple[str, ...] = ()
    stop_signal: str = "SIGTERM"

    @property
    def lower(self) -> str:
        return ":".join(map(str, self.layers))


def steps_of(text: str) -> Iterator[tuple[str, str]]:
    """The instructions of a Dockerfile and what stands behind them; comments are left out, long lines are one."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def build(dockerfile: Path, *, context: Path, cache: Path) -> Image:
    """Make the image of a Dockerfile's last stage."""
    return _Build(context, cache).run(dockerfile.read_text())


class _Build:
    def __init__(self, context: Path, cache: Path) -> None:
        self._context, self._cache = context, cache
        self._ignored = (context / ".dockerignore").read_text().splitlines()
        self._stages: dict[str, Image] = {}
        self._arguments: dict[str, str] = {}

    def run(self, text: str) -> Image:
        image, name = Image(()), ""
        for word, rest in steps_of(text):
            if word == "FROM":
                base, _, name = rest.partition(" AS ")
                image = self._from(self._filled(base))
            else:
                image = self._step(image, word, rest)
            self._stages[name] = image
        return image

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda found: self._arguments[found[1]], text)

    def _from(self, base: str) -> Image:
        found = _BASE.fullmatch(base)
        assert found, f"{base}: only Debian's images have their like here"
        return Image((debian(found[1], self._cache),))

    def _step(self, image: Image, word: str, rest: str) -> Image:
        match word:
            case "ARG":
                key, _, value = rest.partition("=")
                self._arguments[key] = value
                return image
            case "ENV":
                pairs = dict(pair.split("=", 1) for pair in shlex.split(rest))
                env = {**image.env, **{key: self._expanded(image, pairs[key]) for key in pairs}}
                return replace(image, env=env)
            case "RUN":
                return self._run(image, rest)
            case "COPY":
                return self._copy(image, rest)
            case "WORKDIR":
                return replace(self._run(image, f"mkdir -p {shlex.quote(rest)}"), folder=rest)
            case "USER":
                return replace(image, user=rest)
            case "VOLUME":
                return replace(image, volumes=(*image.volumes, *rest.split()))
            case "EXPOSE":
                return replace(image, ports=tuple(map(int, rest.split())))
            case "STOPSIGNAL":
                return replace(image, stop_signal=rest)
            case "HEALTHCHECK":
                return replace(image, health=tuple(json.loads(rest.partition(" CMD ")[2])))
            case "ENTRYPOINT":
                return replace(image, entrypoint=tuple(json.loads(rest)))
            case "CMD":
                return replace(image, command=tuple(json.loads(rest)))
        raise AssertionError(f"{word} is not known here")

    def _expanded(self, image: Image, value: str) -> str:
        return value.replace("$PATH", image.env.get("PATH", ""))

    def _run(self, image: Image, command: str) -> Image:
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **image.env}
        env |= {"PIP_CERT": "/tmp/ca.crt", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        # As a step of docker build gets them: the registries that this machine uses.
        env |= {key: os.environ[key] for key in os.environ if key.startswith("PIP_INDEX")}
        words = ["/usr/bin/env", "-i", f"--chdir={image.folder}"]
        words += [f"{key}={value}" for key, value in env.items()]
        words += ["/bin/sh", "-c", command]
        return self._layer(image, f"RUN {image.folder} {image.env} {command}", _STEP, [
            str(CERTIFICATES), *words,
        ])  # fmt: skip

    def _copy(self, image: Image, rest: str) -> Image:
        words = shlex.split(rest)
        if words[0].startswith("--from="):
            source, target = words[1:]
            origin = self._stages[words[0].partition("=")[2]]
            place = self._cache / "source"
            place.mkdir(parents=True, exist_ok=True)
            key = f"COPY {origin.layers[0].name} {source} {target}"
            arguments = [origin.lower, str(place), target.strip("/"), source.strip("/")]
            return self._layer(image, key, _COPY, arguments)
        *sources, target = words
        for source in sources:
            place = self._cache / "context"
            shutil.rmtree(place, ignore_errors=True)
            name = Path(source).name
            digest = self._gather(source, place / name)
            folder = (
                target
                if target.startswith("/")
                else os.path.normpath(f"{image.folder}/{target}")
            )
            is_folder = target.endswith("/") or len(sources) > 1
            end = f"{folder}/{name}" if is_folder else folder
            arguments = ["", str(place / name), end.strip("/"), ""]
            image = self._layer(image, f"COPY {digest} {end}", _COPY, arguments)
        return image

    def _gather(self, source: str, target: Path) -> str:
        """Copy what .dockerignore lets into the context, and return a hash of it."""
        names = {line[1:] for line in self._ignored if line.startswith("!")}
        assert "*" in self._ignored
        source = os.path.normpath(source)
        assert source in names, f".dockerignore leaves out {source}"
        left_out = [line[3:] for line in self._ignored if line.startswith("**/")]
        target.parent.mkdir(parents=True)
        if (self._context / source).is_dir():
            shutil.copytree(
                self._context / source, target, ignore=shutil.ignore_patterns(*left_out)
            )
        else:
            shutil.copy(self._context / source, target)
        files = sorted(path for path in (target, *target.rglob("*")) if path.is_file())
        digest = hashlib.sha256()
        for path in files:
            digest.update(str(path.relative_to(target)).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def _layer(self, image: Image, step: str, script: str, arguments: list[str]) -> Image:
        """Run a script over the image's layers; what it changes is the new layer."""
        name = hashlib.sha256(f"{image.layers[0].name} {script} {step}".encode()).hexdigest()[
            :24
        ]
        layer = self._cache / "layers" / name
        if not layer.exists():
            making = self._cache / f"making-{name}"
            shutil.rmtree(making, ignore_errors=True)
            upper, work, merged = (making / part for part in ("upper", "work", "merged"))
            for folder in (upper, work, merged):
                folder.mkdir(parents=True)
            places = [image.lower, str(upper), str(work), str(merged)]
            run_program(
                "unshare", "--mount", "--pid", "--fork", "--kill-child",
                "sh", "-euc", script, "sh", *places, *arguments, seconds=None,
            )  # fmt: skip
            layer.parent.mkdir(exist_ok=True)
            upper.rename(layer)
            shutil.rmtree(making)
        return replace(image, layers=(layer, *image.layers))


def debian(release: str, cache: Path) -> Path:
    """The smallest system of a release of Debian, as the slim images have it: made by debootstrap, and kept."""
    root = cache / f"debian-{release}"
    if not root.exists():
        making = cache / f"making-{release}"
        shutil.rmtree(making, ignore_errors=True)
        packages = cache / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        keep = f"--cache-dir={packages.absolute()}"
        run_program("debootstrap", "--variant=minbase", keep, release, making, seconds=None)
        making.rename(root)
    return root.absolute()
