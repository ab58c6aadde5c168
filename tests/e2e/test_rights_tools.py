"""Rights of the command line: it signs with a file as mqadmin does, or with the environment, never with a flag."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.accounts import ADMIN, CANARY, guarded_cluster, tools_file


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    with guarded_cluster(tmp_path_factory.mktemp("guarded")) as (nameserver, _):
        yield nameserver.address


def run(*words, **environment):
    inherited = {
        name: text for name, text in os.environ.items() if not name.startswith("COMETMQ_")
    }
    return subprocess.run(
        [sys.executable, "-m", "cometmq.cli", *map(str, words)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_file_or_the_environment_signs(names, tmp_path):
    tools = tools_file(tmp_path / "tools.yml", ADMIN)
    made = run("--credentials", tools, "topic", "create", "tools", "-n", names)
    assert made.returncode == 0, made.stderr
    listed = run(
        "topic", "list", "--json", "-n", names,
        COMETMQ_ACCESS_KEY=ADMIN.access_key, COMETMQ_SECRET_KEY=ADMIN.secret_key,
    )  # fmt: skip
    assert "tools" in {line["topic"] for line in json.loads(listed.stdout)}
    sent = run("send", "tools", "hello", "-n", names, COMETMQ_CREDENTIALS=str(tools))
    assert sent.returncode == 0, sent.stderr


def test_what_does_not_sign_is_told_why(names):
    refused = run("topic", "list", "-n", names)
    assert refused.returncode == 3
    assert "has no access key" in refused.stderr.replace("\n", " ")
    refused = run("topic", "list", "-n", names, COMETMQ_ACCESS_KEY="alone")
    assert "belong together" in refused.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (f"accessKey: a\nsecretKey: {CANARY}\n", 0o644, "chmod 600"),
        (f"secretKey: {CANARY}\n", 0o600, "has no accessKey"),
        (f"accessKey: a\nsecretKey: [{CANARY}]\n", 0o600, "line 2"),
        (f"accessKey: '{CANARY}\n", 0o600, "not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_without_its_secret(
    tmp_path: Path, text, mode, words
):
    tools = tmp_path / "tools.yml"
    tools.write_text(text)
    tools.chmod(mode)
    refused = run("--credentials", tools, "topic", "list", "-n", "127.0.0.1:1")
    assert refused.returncode == 2
    assert words in refused.stderr.replace("\n", " ")
    assert CANARY not in refused.stderr + refused.stdout
