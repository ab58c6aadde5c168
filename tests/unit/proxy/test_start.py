"""The proxy is imported only where its port is on, and what is missing for it is named."""

import subprocess
import sys

import pytest


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_program_without_the_port_imports_nothing_of_it():
    done = _python(
        "import sys, cometmq.broker.__main__, cometmq.embedded, cometmq.cli.up\n"
        "print([name for name in ('google.protobuf', 'jh2', 'cometmq.proxy.local') if name in sys.modules])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("package", ["jh2", "google.protobuf"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(package, tmp_path):
    done = _python(
        f"import sys\nsys.modules[{package!r}] = None\n"
        "from cometmq.broker.__main__ import main\nsys.exit(main(sys.argv[1:]))",
        "--grpc-server-port", "1", "--listen-port", "0", "--bind-address", "127.0.0.1",
        "--store-path-root-dir", str(tmp_path), "--metrics-exporter-type", "DISABLE",
        "--mapped-file-size-commit-log", "1048576",
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "pip install 'cometmq[grpc]'" in done.stderr
    assert package.partition(".")[0] in done.stderr


def test_an_address_that_is_none_is_refused_where_settings_are_printed(tmp_path):
    done = _python(
        "import sys\nfrom cometmq.broker.__main__ import main\nsys.exit(main(sys.argv[1:]))",
        "-p", "--grpc-access-addr", "nowhere", "--store-path-root-dir", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 2
    assert "grpcAccessAddr=nowhere: an address must be host:port" in done.stderr
