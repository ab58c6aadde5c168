"""The settings of a broker: keys, types, defaults, bounds."""
