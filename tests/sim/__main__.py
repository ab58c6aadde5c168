"""Runs scenes by seeds: `python -m tests.sim --runs 100 --seed 1 --scene storm`.

Prints the trace's hash of each run that is asked for alone, and of failed ones how to repeat them.
"""

import argparse
import sys
import time
import traceback

from tests.sim.scenes import SCENES


def main() -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(prog="tests.sim")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--scene", choices=[*SCENES], default="storm")
    given = parser.parse_args()
    began = time.monotonic()
    failed, acknowledged, terms = [], 0, 0
    for seed in range(given.seed, given.seed + given.runs):
        try:
            group = SCENES[given.scene](seed)
        except AssertionError:
            failed.append(seed)
            traceback.print_exc(limit=-3)
            print(f"repeat it: make sim SEED={seed} RUNS=1 SCENE={given.scene}", flush=True)
            if len(failed) >= 3:
                break
            continue
        acknowledged += group.checks.acknowledged_count
        terms += len(group.checks.leaders)
        if given.runs == 1:
            print(f"trace {group.world.trace}")
    print(
        f"{given.runs} runs of {given.scene}, {acknowledged:,} records acknowledged by {terms:,} leaders, "
        f"{len(failed)} failed, {time.monotonic() - began:.1f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
