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
# # LSTM: why a large GPU gains little from a small model
#
# A bidirectional LSTM with 2.4 million parameters classifies texts, character by character. This notebook reads what was
# measured of it on an NVIDIA H100 and on the CPU beside it, and draws the figures of the report. Every number is written by the
# report's own code. It needs no GPU and takes about half a minute.

# %%
from gpu_report.answers.summary import answer_word, answered
from gpu_report.notebook import read_bundle, readable
from gpu_report.writing.table import metric

machine = read_bundle(
    "../results/published/h100-80gb-x1-xeon-16c.tar.xz", study="../results/published/study.yaml"
)
experiments = machine.tables.experiments
figures = {figure.name: figure for figure in machine.figures}
print(machine.name)

# %% [markdown]
# ## CPU against GPU
#
# Compare the speedup of the LSTM with that of the U-Net: the same GPU, another model. In parentheses is the 95 % interval over
# five fresh processes.

# %%
readable(
    experiments["device"].query("workload in ('lstm', 'unet')"),
    ["step_time", "throughput", "speedup", "memory"],
)

# %%
figures["device_speedup"]

# %% [markdown]
# ## Why so little?
#
# An LSTM computes one character after the other. Each character needs small kernels, and the next ones wait for them. The
# table shows which part of a profiled step each took: kernels on the GPU, and the host's work while no
# kernel ran.

# %%
lstm = experiments["device"].query("workload == 'lstm' and device != 'cpu'")
parts = {
    "kernel_share": "kernels",
    "operator_share": "operations on the host",
    "runtime_share": "CUDA calls",
    "other_share": "Python",
}
readable(
    lstm.merge(machine.tables.step_shares.drop(columns=["workload", "device"]), on="variant"),
    [
        metric(column, title, "share")
        for column, title in {**parts, "device_idle_share": "GPU idle"}.items()
    ],
)

# %%
figures["study_steps"]

# %%
figures["study_idle"]

# %% [markdown]
# ## Do CPU and GPU learn the same?
#
# The loss of each step and the held-out accuracy, on both devices. The CPU trained the LSTM and the U-Net for a few steps only,
# at the left of their panels. It trained the small image CNN as long as the GPU did, and there both curves are the same.

# %%
figures["device_convergence"]

# %% [markdown]
# ## What helps
#
# CUDA graphs launch the whole step at once, so that the GPU no longer waits for the host.

# %%
readable(
    experiments["optimization"].query("workload == 'lstm'"),
    ["step_time", "throughput", "speedup", "preparation", "break_even"],
)

# %%
figures["optimization_ladder"]

# %%
for each in answered(machine.findings, "optimization", []):
    print(each.question, answer_word(each), each.statement, sep="\n  ", end="\n\n")
