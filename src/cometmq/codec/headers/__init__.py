"""Typed custom headers: one frozen dataclass for each request and each answer that has one.

They are read and written by `codec.fields`. The attribute's camelCase is the wire name.
"""
