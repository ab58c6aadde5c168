"""`make audit` says what it found, or that it could not look: a pip-audit that prints what the real one did."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.programs import run_program

ROOT = Path(__file__).resolve().parents[2]
SOUND = {"name": "idna", "version": "3.20", "vulns": []}
BAD = {"name": "old", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
UNKNOWN = {"name": "idna", "skip_reason": "Dependency not found on PyPI: idna (3.3)"}


@pytest.mark.parametrize(
    ("printed", "status", "said"),
    [
        ({"dependencies": [SOUND]}, 0, "1 packages, 0 known vulnerabilities"),
        ({"dependencies": [SOUND, BAD]}, 1, "old 1: PYSEC-1, mended in 2"),
        ({"dependencies": [BAD, UNKNOWN]}, 2, "could not run: nothing is known of 1 of 2"),
        ({"dependencies": []}, 2, "could not run: nothing is known of 0 of 0"),
        ("no JSON", 2, "could not run: pip-audit printed nothing"),
    ],
)
def test_what_was_not_looked_up_is_no_success(tmp_path, printed, status, said):
    text = printed if isinstance(printed, str) else json.dumps(printed)
    (tmp_path / "pip_audit.py").write_text(f"print({text!r})")
    command = (sys.executable, ROOT / "tools" / "audit.py")
    done = run_program(*command, status=status, env={"PYTHONPATH": str(tmp_path)})
    assert done.stderr == ""
    assert said in done.stdout
