"""Custom headers: a frozen dataclass for each request and answer that has one.

`codec.fields` encodes and decodes them. An attribute's wire name is its camelCase form, unless `wire` sets another.
"""
