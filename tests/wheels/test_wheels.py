"""A wheel of each Python of this machine: it is built of the source distribution alone, and runs where no compiler is."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.archives import opened_tar
from tests.wheels.conftest import SECONDS_MAX, STRICT, run
from tests.wheels.pythons import ROOT

ONE_MESSAGE = ROOT / "tests" / "wheels" / "one_message.py"
# Where it is, wheels have an HTTP/2 engine for it.
NGHTTP2 = Path("/usr/include/nghttp2/nghttp2.h")
# What users get: pip takes wheels of other packages only, and finds no compiler.
INSTALL: list[str | Path] = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
# Tests of what touches each byte: they find what a Python does differently, as all the rest stands on it.
TESTS = ["kernel", "codec", "wire", "store"]
TOOLS = [
    "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist", "hypothesis", "pyarrow", "numpy",
    "jh2",
]  # fmt: skip
# As in the Makefile: some tests measure the memory of their process.
OPTIONS = ["-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]

pytestmark = pytest.mark.timeout(
    3 * SECONDS_MAX
)  # The first builds the source distribution and a wheel.


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """An environment with nothing but CometMQ and what it needs: its Python, and the environment of its programs."""
    python, made = wheel
    folder = tmp_path_factory.mktemp("clean") / "env"
    run([python, "-m", "venv", folder])
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "COMETMQ_KERNEL")
    }
    environment["PATH"] = str(folder / "bin")
    assert shutil.which("cc", path=environment["PATH"]) is None
    installed = folder / "bin" / "python"
    run([installed, *INSTALL, made], env=environment)
    return installed, environment


def test_a_wheel_has_each_part_of_the_compiled_kernel(wheel) -> None:
    _, made = wheel
    names = zipfile.ZipFile(made).namelist()
    compiled = {Path(name).name.split(".")[0] for name in names if name.endswith(".so")}
    expected = {path.stem for path in (ROOT / "src/cometmq/kernel").glob("_*.pyx")}
    if NGHTTP2.exists():
        expected.add("_nghttp2")
    assert compiled == expected
    pages = {path.name for path in (ROOT / "src/cometmq/dashboard/templates").iterdir()}
    assert pages <= {Path(name).name for name in names}
    assert "cometmq/py.typed" in names


def test_it_takes_a_message_from_a_client_to_another(clean, tmp_path) -> None:
    python, environment = clean
    said = run([python, ONE_MESSAGE], env=environment, cwd=tmp_path)
    version = run([python, "-c", "import platform; print(platform.python_version())"])
    last = said.splitlines()[-1]
    engine = "nghttp2 " if NGHTTP2.exists() else "jh2"
    assert f"(kernel compiled, Python {version.strip()}, HTTP/2 {engine}" in last
    print(f"\n{last}")


@pytest.mark.slow
def test_kernel_codec_and_store_pass_their_tests_as_installed(clean) -> None:
    python, environment = clean
    pins = ["--constraint", str(ROOT / "requirements.lock")]
    run([python, *INSTALL, *pins, *TOOLS], env=environment)
    folders = [f"tests/unit/{name}" for name in TESTS]
    said = run([python, "-m", "pytest", *OPTIONS, *folders], cwd=ROOT, env=environment)
    print(f"\n{said.splitlines()[-1]}")


def test_a_missing_extra_is_there_after_what_the_command_says(clean, tmp_path) -> None:
    python, environment = clean
    command = [
        python.parent / "cometmq",
        "dashboard",
        "user",
        "create",
        "ann",
        "--data",
        tmp_path,
    ]
    refused = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert refused.returncode == 2
    assert "run pip install 'cometmq[dashboard]'" in refused.stderr
    run([python, *INSTALL, "cometmq[dashboard]"], env=environment)
    run(command, env=environment)


def test_a_release_that_lost_its_compiled_kernel_is_none(sdist, tmp_path) -> None:
    """Where nobody asks for a release, it stays plain: `make plain` builds so."""
    with opened_tar(sdist) as archive:
        archive.extractall(tmp_path)
    tree = tmp_path / sdist.name.removesuffix(".tar.gz")
    for module in (tree / "src/cometmq/kernel").glob("_*.pyx"):
        if module.stem != "_crc":  # One is enough; all of them take half a minute to translate.
            module.unlink()
    out = tmp_path / "out"
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", out, tree]
    broken = {**STRICT, "CC": "/bin/false"}
    done = subprocess.run(
        command, env=broken, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )
    assert done.returncode != 0
    assert "/bin/false" in done.stdout + done.stderr
    assert not list(out.glob("*.whl"))
