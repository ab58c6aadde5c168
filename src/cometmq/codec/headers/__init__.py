"""Custom headers of requests and answers, as frozen dataclasses.

`codec.fields` encodes and decodes them. An attribute's wire name is its camelCase form, unless `wire` sets another.
"""
