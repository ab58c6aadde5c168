"""How tests run here: no deadline for one example (the machine may be busy), a seed to repeat, Ctrl-C that works."""

import signal

from hypothesis import settings

settings.register_profile("cometmq", deadline=None, print_blob=True)
settings.load_profile("cometmq")

# A shell starts what runs in its background deaf to Ctrl-C, and tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
