"""How many turns the twins of the kernel and of the sends' two paths are given: few each time, very many when asked.

COMETMQ_TWINS_TURNS=100000 make test ARGS="-k 'twins or fast_path'"

A turn is what connections bring at once, from its bytes to the answers. Both paths of sends get so many reads, and 20,000 each time; single functions
of the kernel get a part of that.
"""

import os

ASKED = int(os.environ.get("COMETMQ_TWINS_TURNS", "0"))
# Of so many turns a function is called with an example of its own once.
_TURNS_OF_A_CALL = 20


# Of a test, as pyproject.toml says for those that ask for nothing; and for each turn that is asked for, seconds.
_TIMEOUT_SECONDS, _TURN_SECONDS = 120, 0.1


def twin_timeout() -> float:
    """How long a test of so many turns may take, seconds."""
    return _TIMEOUT_SECONDS + ASKED * _TURN_SECONDS


def twin_turns(few: int) -> int:
    """So many generated turns; more where the environment asks for more."""
    return max(few, ASKED)


def twin_calls(few: int) -> int:
    """So many generated calls of one function; more where the environment asks for many turns."""
    return max(few, ASKED // _TURNS_OF_A_CALL)
