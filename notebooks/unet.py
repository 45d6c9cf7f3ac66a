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
# # U-Net: what one H100 makes of it
#
# A U-Net with 31 million parameters segments images of 128 x 128 pixels. It was trained on an NVIDIA H100 and on the CPU
# beside it; the published bundle holds what was measured. This notebook reads the bundle, makes its tables, and draws the
# figures of the report. Every number is written by the report's own code. It needs no GPU and takes about half a minute.
#
# For your own machine: `make report`, then `gpu-report pack`, and name the file it writes in the next cell.

# %%
from gpu_report.answers.summary import answer_word, answered
from gpu_report.notebook import read_bundle, readable

machine = read_bundle(
    "../results/published/h100-80gb-x1-xeon-16c.tar.xz", study="../results/published/study.yaml"
)
experiments = machine.tables.experiments
figures = {figure.name: figure for figure in machine.figures}
print(machine.name)


# %%
def of_unet(experiment):
    return experiments[experiment].query("workload == 'unet'")


def answers(experiment):
    for each in answered(machine.findings, experiment, []):
        print(each.question, answer_word(each), each.statement, sep="\n  ", end="\n\n")


# %% [markdown]
# ## How much faster is the GPU?
#
# Both trained on the same data with the same batch size in `fp32`. In parentheses is the 95 % interval over five fresh
# processes: another five would most likely give a mean in it. The CPU trained one step only per epoch, which is enough
# for its step time and too little to learn anything, so its held-out quality says nothing.

# %%
readable(of_unet("device"), ["step_time", "throughput", "speedup", "memory", "quality"])

# %%
figures["device_speedup"]

# %% [markdown]
# ## Where does the time of a step go?
#
# A few steps were profiled apart from the timing. Convolutions take most of the GPU's time, and the backward pass takes
# longer than the forward pass: it computes two gradients, of the weights and of the inputs.

# %%
figures["device_phases"]

# %%
figures["study_timeline"]

# %% [markdown]
# ## Does a lower precision train faster?
#
# The dataset is in GPU memory here, so that nothing but the precision differs. `tf32` and `bf16` use the tensor cores, and `fp32`
# does not. Compare the held-out Dice score: where its intervals overlap, the lower precision cost no accuracy that five
# processes can show.

# %%
readable(of_unet("precision"), ["step_time", "throughput", "speedup", "memory", "quality"])

# %%
figures["precision_speedup"]

# %%
answers("precision")

# %% [markdown]
# ## Which optimizations are worth it?
#
# Each row adds optimizations to the eager baseline. The break-even is the number of steps after which the time that
# compilation and capture took has been saved.

# %%
readable(of_unet("optimization"), ["throughput", "speedup", "memory", "preparation", "break_even"])

# %%
figures["optimization_ladder"]

# %% [markdown]
# ## How close is this to what the GPU can do?
#
# A point below a roof is a configuration; the roofs are peaks that were measured on the same GPU. The distance to the roof is
# what the GPU could still give.

# %%
figures["study_roofline"]
