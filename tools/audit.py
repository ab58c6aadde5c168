"""Look up the packages of requirements*.lock in the index's list of known vulnerabilities.

Usage: python tools/audit.py [FILE...]

Exit status 1: there are vulnerabilities. 2: it could not run, because the index, or a mirror of it, does not tell them
(pip-audit asks its JSON API), so nothing is known. pip-audit ends with 1 in both cases, and names a package as missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOUND, COULD_NOT_RUN = 1, 2


def main(files: list[str]) -> int:
    """Audit the files, or all locks, and print what was found."""
    locks = files or sorted(map(str, ROOT.glob("requirements*.lock")))
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--no-deps",
        "--disable-pip",
        "--format",
        "json",
    ]
    command += ["--progress-spinner", "off", *(f"--requirement={lock}" for lock in locks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        last = done.stderr.strip().splitlines()[-1:] or ["pip-audit printed nothing"]
        print(f"could not run: {last[0]}")
        return COULD_NOT_RUN
    for package in packages:
        for each in package.get("vulns", ()):
            mended = ", ".join(each["fix_versions"]) or "no version"
            print(f"{package['name']} {package['version']}: {each['id']}, mended in {mended}")
    skipped = [package for package in packages if "skip_reason" in package]
    if skipped or not packages:
        reason = skipped[0]["skip_reason"] if skipped else "no packages are named"
        print(
            f"could not run: nothing is known of {len(skipped)} of {len(packages)} packages, for example: {reason}. "
            "Run it where pip reaches pypi.org itself."
        )
        return COULD_NOT_RUN
    count = sum(len(package["vulns"]) for package in packages)
    print(f"{len(packages)} packages, {count} known vulnerabilities")
    return FOUND if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
