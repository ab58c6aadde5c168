"""How hypothesis runs here: no deadline for one example (the machine may be busy), a seed to repeat."""

from hypothesis import settings

settings.register_profile("cometmq", deadline=None, print_blob=True)
settings.load_profile("cometmq")
