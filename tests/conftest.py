"""How tests run here: no deadline for one example (the machine may be busy), a seed to repeat, Ctrl-C that works.

Hypothesis gives each test a hundred examples, or as many as `tests.support.twin_turns` says of calls.
"""

import signal

from hypothesis import settings

from tests.support.twin_turns import twin_calls

settings.register_profile(
    "cometmq", deadline=None, print_blob=True, max_examples=twin_calls(100)
)
settings.load_profile("cometmq")

# A shell starts what runs in its background deaf to Ctrl-C, and tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
