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
# # From a frozen head to a Pixel
#
# A phone decodes one token per pass, and each pass reads the whole model from memory. **Speculative
# decoding** reads it less often: a small *drafter* proposes K tokens, the *target* verifies them in one
# pass and keeps the longest right prefix, plus one token of its own. The text does not change.
#
# What should draft? A **frozen MTP head** is a small stack behind the last layer of the target. It reads
# the target's own KV cache, so it needs no cache and no prefill of its own, and the target stays frozen.
# A **standalone** drafter is a small language model beside the target. An **n-gram look-up** copies from
# the prompt.
#
# This notebook goes the whole way, step by step: acceptance *measured* on a small real target, a cost
# model with *cited* hardware numbers, a prediction for a Pixel 9. It needs no GPU and no PyTorch.

# %%
import numpy as np
import plotly.io
from IPython.display import HTML, Markdown, display

import hw_profiles
import simulator
from simulator import figures
from simulator.acceptance import TraceAcceptance, summarise
from simulator.acceptance.trace import load_shipped, shipped_traces
from simulator.studies.report_data import report_data

plotly.io.renderers.default = "plotly_mimetype"
TARGET, DEVICE, TASK, K = "smollm2_135m", "pixel_9", "notification_summary", 4


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> Markdown:
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    return Markdown("\n".join(lines + [" | ".join(str(cell) for cell in row) for row in rows]))


# %% [markdown]
# ## 1. Acceptance is measured
#
# Verification is exact, so the text of a response is the same under every drafter. The drafter can
# therefore be asked at **every** position of a recorded response, once; any draft length is then replayed
# from that *trace*. These traces were recorded on SmolLM2-135M-Instruct with drafters trained on it.

# %%
traces = {name: load_shipped(TARGET, name) for name in shipped_traces(TARGET)}
table(
    ("drafter", "family", "parameters", "responses", "anchors", "recorded"),
    [
        (name, trace.metadata.drafter_family, f"{trace.metadata.drafter_params:,}", trace.n_requests,
         trace.n_rows, trace.metadata.date)
        for name, trace in traces.items()
    ],
)  # fmt: skip

# %% [markdown]
# A small target answers many prompts alike. Responses that share more than 20 % of their 8-grams with the
# training responses are left out from here on: nobody gets credit for remembered answers.
#
# **Mean acceptance length** at K = 4: tokens that one step yields, the target's own (the *bonus*)
# included. 1 means that drafting never helped, 5 is the most.

# %%
summaries = {name: summarise(trace, draft_lengths=[K]) for name, trace in traces.items()}
tasks = [record["task"] for record in next(iter(summaries.values()))]
table(
    ("task", "responses", *summaries),
    [
        (
            figures.task_label(task),
            next(iter(summaries.values()))[row]["requests"],
            *(f"{records[row]['mean_acceptance_length']:.2f}" for records in summaries.values()),
        )
        for row, task in enumerate(tasks)
    ],
)

# %% [markdown]
# Everything below comes from one call: a comparison of all drafters at all draft lengths on one device,
# and the records that figures and reports show.

# %%
data = report_data(devices=[DEVICE])
measured = next(section for section in data["sections"] if section["target"] == TARGET)
by_depth = {part["task"]: part for part in data["acceptance"]}

figures.acceptance_by_depth(
    by_depth[TASK]["records"],
    title="Acceptance by depth: notification summary",
    reading=by_depth[TASK]["reading"],
)

# %% [markdown]
# ## 2. What that looks like in a text
#
# One box is one step, that is one pass of the target. Underlined: accepted drafts. Bold: the target's own
# token. Struck through: rejected drafts, for which work was done in vain.

# %%
strip = next(strip for strip in data["strips"] if strip["task"] == TASK)
HTML(figures.token_strip(strip))

# %% [markdown]
# ## 3. Hardware is cited
#
# A *device* says what is possible, a *runtime* what a software stack reaches. Each number has a unit,
# says how it is known, and names its source; assumed ones carry a range that becomes the interval of the
# result.

# %%
device = hw_profiles.load_device(DEVICE)
runtime = hw_profiles.load_runtime(device.default_runtime)
numbers = {
    "peak bandwidth": device.dram.peak_bandwidth_bytes_per_s,
    "share of it reached on a large model": runtime.mbu_large,
    "share of it reached on a small model": runtime.mbu_small,
    "floor of a target pass": runtime.floor_per_pass_s,
    "floor of a draft pass": runtime.floor_per_draft_pass_s,
    "floor of a step": runtime.floor_per_step_s,
    "energy of DRAM": device.dram.energy_per_byte_j,
}
display(Markdown(f"**{device.name}**, {runtime.name}"))
table(
    ("number", "value", "unit", "range", "known how", "source"),
    [
        (name, f"{each.value:.3g}", each.unit,
         "" if each.low is None else f"{each.low:.3g} to {each.high:.3g}", each.kind, each.source)
        for name, each in numbers.items()
    ],
)  # fmt: skip

# %% [markdown]
# ## 4. One prediction, by hand
#
# A step of K drafts takes K draft passes, one verify pass of K + 1 rows, and some host time. Plain
# decoding takes one pass a token. With τ the tokens that a step yields,
#
# $$ \text{speedup} = \frac{\tau\; T_{plain}}{T_{draft} + T_{verify} + T_{host}} . $$

# %%
head = TraceAcceptance(trace=traces["mtp_head"])
result = simulator.predict(
    device=DEVICE, target=TARGET, drafter="smollm2_mtp_head", acceptance=head, draft_length=K, task=TASK
)
plain_s = 1 / result["baseline_decode_tokens_per_s"]
step_s = result["draft_time_s"] + result["verify_time_s"] + result["host_time_s"]
by_hand = result["tokens_per_step"] * plain_s / step_s
assert np.isclose(by_hand, result["speedup"], rtol=1e-9)
table(
    ("", "value"),
    [
        ("τ, tokens per step", f"{result['tokens_per_step']:.2f}"),
        ("one plain pass", f"{plain_s * 1e3:.2f} ms"),
        ("draft passes of a step", f"{result['draft_time_s'] * 1e3:.2f} ms"),
        ("verify pass of a step", f"{result['verify_time_s'] * 1e3:.2f} ms"),
        ("host time of a step", f"{result['host_time_s'] * 1e3:.2f} ms"),
        ("speedup by hand", f"{by_hand:.3f}"),
        ("speedup of predict()", f"{result['speedup']:.3f}"),
        ("its interval", "{:.2f} to {:.2f}".format(*result.intervals["speedup"])),
        ("tokens per step needed to break even", f"{result['break_even_acceptance_length']:.2f}"),
    ],
)

# %% [markdown]
# The event engine replays the same steps pass by pass on a simulated engine and memory bus. Both must
# agree.

# %%
simulated = simulator.simulate(
    device=DEVICE, target=TARGET, drafter="smollm2_mtp_head", acceptance=head, draft_length=K, task=TASK
)
assert np.isclose(simulated["speedup"], result["speedup"], rtol=1e-9)
print(f"closed form {result['speedup']:.6f}, event engine {simulated['speedup']:.6f}")

# %% [markdown]
# ## 5. How long should a draft be?
#
# Each further draft costs a draft pass and is accepted more rarely. Above the dashed line drafting pays.
# The large marker is the best K. The band is what the ranges of all inputs give for the frozen head, the
# bars the same for the others at their best K; inputs are shared, so drafters move together.

# %%
figures.speedup_grid(
    [row for part in measured["speedup"] for row in part["records"]],
    bands=["smollm2_mtp_head"],
    title="Speedup over plain decoding on a Pixel 9, by task",
    reading=data["answers"][0]["text"],
)

# %%
figures.decode_speed(
    measured["speed"], title="Tokens per second on a Pixel 9", reading=measured["readings"]["speed"]
)

# %% [markdown]
# ## 6. Because of which bytes?
#
# Decoding on a phone is mostly reading. The ledger holds every byte that the model charges time and
# energy for.

# %%
figures.byte_ledger(measured["bytes"], title="Bytes per emitted token", reading=measured["readings"]["bytes"])

# %%
figures.energy_by_phase(
    measured["energy"], title="Energy per emitted token by phase", reading=measured["readings"]["energy"]
)

# %%
figures.drafter_ram_by_part(
    measured["drafter_ram"], title="RAM that the drafter adds", reading=measured["readings"]["drafter_ram"]
)

# %% [markdown]
# ## 7. The runtime decides
#
# Verifying K drafts is one pass of K + 1 rows. Weights are read once whatever the width, so in principle
# it is nearly free; kernels of today differ widely. `v(w)` is the cost of w rows relative to one.

# %%
curves = next(part for part in data["verify"] if part["target"] == TARGET)
figures.verify_curves(
    curves["records"],
    title="Cost of verifying, by runtime",
    reading=curves["reading"],
    bands=[device.default_runtime],
)

# %% [markdown]
# ## 8. Larger targets have their own acceptance
#
# What was measured on a small target says little about a larger one, so it is never carried over
# silently. Gemma-class targets use what was published for them; where nothing was published, only costs
# are told.

# %%
published = [line for line in data["comparison"] if line["block"] == "published"]
rows = []
for line in published:
    row = line["devices"][DEVICE]
    known = row["speedup"] is not None
    rows.append(
        (
            line["target"],
            line["label"],
            row["draft_length"] or "",
            f"{row['speedup']:.2f}×"
            if known
            else f"pays above {row['break_even_acceptance_length']:.2f} tokens per step",
            f"{row['decode_tokens_per_s']:.3g}" if known else "",
            f"{row['drafter_ram_bytes'] / 2**20:.0f}",
            line["acceptance_kind"] or "",
        )
    )
table(("target", "drafter", "K", "speedup", "tokens/s", "drafter RAM (MiB)", "acceptance"), rows)

# %%
curve = next(section for section in data["sections"] if section["target"] == "gemma_4_e4b")["speedup"][0]
figures.speedup_by_draft_length(
    curve["records"],
    series="task",
    bands=["all"],
    title="Gemma 4 E4B with its assistant on a Pixel 9, published acceptance",
    reading=curve["reading"],
    height=340,
)

# %% [markdown]
# ## What to take away

# %%
Markdown("\n".join(f"- {answer['text']}" for answer in data["answers"]))

# %% [markdown]
# Absolute rates on a phone without public measurements rest on assumed values and say so; compare
# drafters within one runtime. `draftscope report` writes all of this for any device into one HTML file,
# and `draftscope profiles show pixel_9 --sources` lists every number with its source.
