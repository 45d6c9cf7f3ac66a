"""Tables become figures: one style, one width, one list of kinds that every experiment
draws from.
"""
