"""A model or a training loop of the user's own, measured without a study: profile, batch size,
options, watch.
"""
