# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your model: what limits its training?
#
# `profile` trains a model for some seconds, says what limits a step and what to try, and leaves model, gradients and random
# numbers as they were. The model here is small, so that it takes seconds on any CPU. Replace `model`, `batch` and
# `cross_entropy` by your own; [your_model.md](../docs/your_model.md) lists the other ways to call it.

# %%
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gpu_report import profile

model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
)  # fmt: skip
batch = torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))

# %%
found = profile(model, batch, loss=cross_entropy, seconds=20)

# %% [markdown]
# **limit** is the part that takes most of a step, **why** its time with a 95 % interval and what the step consists of, and **next**
# what to try.

# %% [markdown]
# ## Which operations take the time?
#
# The profile is in `tables`, as DataFrames. `self_ms` is the time of an operation without what it calls.

# %%
found.tables["operations"].nlargest(8, "self_ms")[
    ["name", "device", "category", "calls", "self_ms", "self_share"]
]

# %% [markdown]
# ## Try a change, and compare
#
# Four times the batch: do more samples per second pass? Where the intervals of the two cards do not overlap, the change made a
# difference in this process; a study of several processes measures whether it lasts.

# %%
larger = torch.randn(128, 3, 64, 64), torch.randint(0, 10, (128,))
found_larger = profile(model, larger, loss=cross_entropy, seconds=20)

# %% [markdown]
# ## Keep it
#
# One file for a browser, with the step along time to zoom into, and the trace for [Perfetto](https://ui.perfetto.dev):
#
# ```python
# found.to_html("profile.html")
# Path("profile.pt.trace.json.gz").write_bytes(found.trace)
# ```
