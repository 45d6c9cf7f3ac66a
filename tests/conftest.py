"""Settings for every test."""

import os

from hypothesis import settings

# How long an example takes depends on what else the machine does, and no test asserts time. CI draws the same examples
# each time, so that a change is judged by what it changes; runs by hand draw new ones.
settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("project")
