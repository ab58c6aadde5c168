"""Alerts that look back for hours, as they are in deploy/prometheus, on numbers that `promtool` gives them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.operate.watched import RULES, promtool

OF_BROKER = 'cluster="C",node_id="broker-a",broker_id="0",role="master",job="cometmq-broker",instance="a:5557"'
FILLS, NEARLY = "CometMQDiskFills", "CometMQDiskNearlyFull"
# Per cent of the disk that are used, minute by minute; how many minutes; what has fired by then, and what fires then.
USES: dict[str, tuple[str, int, set[str], set[str]]] = {
    "in 3 hours it is full": ("60+0.1x300", 150, {FILLS}, {FILLS}),
    "it fills slowly": ("70+0.03x300", 240, set(), set()),
    "it fills, but there is time": ("10+0.1x300", 240, set(), set()),
    "it is nearly full already": ("80+0.075x300", 240, {NEARLY}, {NEARLY}),
    "as much is deleted as comes": ("70+0.5x9 75-0.5x9 " * 15, 290, set(), set()),
    "a new broker makes its files": ("1+0x5 50+0x294", 290, set(), set()),
    "a large file comes once": ("20+0x180 40+0x119", 290, set(), set()),
    "somebody makes room": ("60+0.12x200 40+0x99", 290, {FILLS}, set()),
}


@pytest.mark.parametrize("case", USES)
def test_a_disk_that_will_be_full_is_told_in_time(tmp_path: Path, case: str) -> None:
    values, minutes, fired, firing = USES[case]
    place = f'{OF_BROKER},directory="/data/commitlog"'
    given = {
        f"cometmq_disk_used_bytes{{{place}}}": values,
        f"cometmq_disk_free_bytes{{{place}}}": _less(values),
        f'cometmq_disk_limit_ratio{{{OF_BROKER},limit="refuse"}}': "0.9+0x300",
    }
    what = 'ALERTS{alertstate="firing"}'
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in given.items()],
        "promql_expr_test": [
            _asked(f"{minutes}m", f"max_over_time({what}[5h])", fired),
            _asked(f"{minutes}m", what, firing),
        ],
    }
    done = _tested(tmp_path, [test])
    assert done == "", done


MEMBER = 'cluster="C",node_id="broker-g",job="cometmq-broker"'
ELECTS = "CometMQGroupElectsOften"
# The terms of members, minute by minute for half an hour, by their other labels; what fires then.
TERMS: dict[str, tuple[dict[str, str], set[str]]] = {
    "four elections in four minutes": ({'instance="a"': "5+0x20 6+1x3 9+0x5"}, {ELECTS}),
    "three elections": ({'instance="a"': "5+0x20 6+1x2 8+0x6"}, set()),
    "four elections in an hour": ({'instance="a"': "5+0x8 6+0x8 7+0x8 8+0x4"}, set()),
    "a member that was away comes back with an old term": (
        {'instance="a"': "9+0x30", 'instance="b"': "_x20 3+0x2 9+0x7"},
        set(),
    ),
    "the lead comes and goes": (
        {
            'instance="a",broker_id="0",role="master"': "5+0x20 _ 7 _ 9+0x7",
            'instance="a",broker_id="1",role="slave"': "_x21 6 _ 8 _x7",
        },
        {ELECTS},
    ),
}


@pytest.mark.parametrize("case", TERMS)
def test_elections_are_counted_over_members_and_roles(tmp_path: Path, case: str) -> None:
    terms, firing = TERMS[case]
    series = {f"cometmq_elected_term{{{MEMBER},{each}}}": text for each, text in terms.items()}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": text} for name, text in series.items()],
        "promql_expr_test": [_asked("29m", 'ALERTS{alertstate="firing"}', firing)],
    }
    done = _tested(tmp_path, [test])
    assert done == "", done


def _asked(when: str, expression: str, alerts: set[str]) -> dict[str, Any]:
    """A question to which these alerts are the answer."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)]
    return {
        "eval_time": when,
        "expr": f"max by (alertname) ({expression})",
        "exp_samples": samples,
    }


def _less(values: str) -> str:
    """What is free where so much of 100 is used: the same notation, a+bxn."""
    parts = []
    for part in values.split():
        start, sign, rest = part.partition("+") if "+" in part else part.partition("-")
        parts.append(f"{100 - float(start):g}{'-' if sign == '+' else '+'}{rest}")
    return " ".join(parts)


def _tested(folder: Path, tests: list[dict[str, Any]]) -> str:
    """What promtool has to say against the tests; empty if nothing."""
    file = folder / "tests.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(RULES / name) for name in ("recording.yml", "alerts.yml")],
                "evaluation_interval": "1m",
                "tests": tests,
            }
        )
    )
    done = promtool("test", "rules", file)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).decode()
