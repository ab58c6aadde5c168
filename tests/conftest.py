"""How tests run here: no deadline for one example (the machine may be busy), a seed to repeat, Ctrl-C that works.

Hypothesis gives each test a hundred examples, or as many as `tests.support.twin_turns` says of calls.
"""

import os
import shutil
import signal
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from cometmq.kernel import KERNEL, WHY_PLAIN
from tests.support.twin_turns import twin_calls

settings.register_profile(
    "cometmq", deadline=None, print_blob=True, max_examples=twin_calls(100)
)
settings.load_profile("cometmq")

# A shell starts what runs in its background deaf to Ctrl-C, and tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The end of a suite's time is one, too: programs, mounts and networks of tests are left as by Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# Suites whose tests take milliseconds, as nearly all of them start no program.
_QUICK = {"unit", "property", "golden", "arch", "sim"}


def own_configuration(config: pytest.Config) -> None:
    """Keep tests away from the profiles of who runs them; all else in that folder is found as ever, as Go's and pip's."""
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    folder = Path(tempfile.mkdtemp(prefix="config-"))
    config.add_cleanup(lambda: shutil.rmtree(folder))
    for each in usual.iterdir() if usual.is_dir() else ():
        if each.name != "cometmq":
            (folder / each.name).symlink_to(each)
    os.environ["XDG_CONFIG_HOME"] = str(folder)


def pytest_configure(config: pytest.Config) -> None:
    """Give tests a folder of configurations, and refuse to run where the results would mislead.

    Without the compiled kernel where there is a compiler, tests would be left out in silence. On a disk that is
    used beyond 90 % (diskSpaceWarningLevelRatio), brokers refuse the messages of hundreds of tests.
    """
    own_configuration(config)
    place = tempfile.gettempdir()
    space = os.statvfs(place)
    used = space.f_blocks - space.f_bfree
    percent = -(-100 * used // (used + space.f_bavail))
    if percent > 90:
        raise pytest.UsageError(
            f"the disk of {place} is used to {percent} %, and brokers refuse messages above 90 %; "
            "free space, or set TMPDIR to a directory of another disk"
        )
    if (
        KERNEL != "fast"
        and not os.environ.get("COMETMQ_KERNEL")
        and (shutil.which("cc") or shutil.which("gcc"))
    ):
        raise pytest.UsageError(
            f"the compiled kernel does not run: {WHY_PLAIN}; `rm .venv/.installed` and `make setup` build it"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of the compiled kernel where the plain one runs, and begin with the files that take longest.

    So none works on one while the others are through.
    """
    if KERNEL != "fast":
        others = [item for item in items if item.get_closest_marker("compiled")]
        items[:] = [item for item in items if item not in others]
        config.hook.pytest_deselected(items=others)
    if hasattr(config, "workerinput"):
        seconds: defaultdict[Path, float] = defaultdict(float)
        for item in items:
            seconds[item.path] += _expected_seconds(item)
        items.sort(key=lambda item: -seconds[item.path])


def _expected_seconds(item: pytest.Item) -> float:
    """A guess from its marks: who is slow or may take longer than others does, and others take what their suite takes."""
    timeout = item.get_closest_marker("timeout")
    if item.get_closest_marker("slow"):
        return 20.0
    if timeout is not None and timeout.args[0] > float(item.config.getini("timeout")):
        return 3.0
    suite = item.path.relative_to(item.config.rootpath / "tests").parts[0]
    return 0.05 if suite in _QUICK else 1.0
