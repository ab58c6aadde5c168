"""Sends: checks (`admission`), records (`packing`), storing (`sends`), answers (`requests`), and a `fast_path`."""
