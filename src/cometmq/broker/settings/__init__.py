"""The keys of a broker's file of settings: types, defaults, bounds."""
