"""What is run on the phone: script, prompt and Perfetto configuration; it knows no prediction's numbers.

Options as in the README of llama-bench, the flags of LiteRT-LM (`runtime/engine/shared_flags.cc`,
`litert_lm_advanced_main.cc`) and the pages of Perfetto on its command line and on power rails.
"""

from __future__ import annotations

from simulator.studies.kit import POWER, RESULTS, Prediction, RuntimePrediction

SCRIPT, PROMPT_FILE, CONFIG = "run.sh", "prompt.txt", "power.textproto"
TRACE_S = 90
"""Length of a power trace; the run that it watches is shorter on most phones."""

PROMPT = """\
Below is a message from a neighbour.

"Hello, this is Maria from the second floor. On Saturday the water in our stairwell will be turned off between
eight in the morning and two in the afternoon, because the plumber replaces the old pipe behind the meters.
Please fill a few bottles on Friday evening, and do not use the washing machine until the water runs clear
again. The plumber also asks that someone lets him into the cellar at half past seven. I am at work then;
could you do that, and keep the key until Sunday? Afterwards a few of us meet in the yard for coffee and cake
at four o'clock. Bring a chair if you have one. If it rains we meet in the bicycle room instead. Last time two
flats did not hear about the work in advance, so I would be glad if you could also tell the family on the
fourth floor, who have just moved in."

First list every date and time in the message with what happens then, one a line. Then list what the writer
asks the reader to do. Then write a friendly reply of about eighty words that says yes to everything except
keeping the key until Sunday.
"""

_HEAD = """\
#!/usr/bin/env bash
# Written by draftscope kit, {when}: {device}, {target}.
# Run it where adb sees the phone. Charge the phone, close other apps, display off, let it cool down.
#
#   BIN       folder on the phone with llama-bench, litert_lm_advanced_main and their libraries
#   GGUF      model for llama-bench, on the phone: the same build that was predicted ({target})
#   LITERTLM  model for LiteRT-LM, on the phone
#   THREADS   threads of the CPU: the large and middle cores
#   REST      seconds between runs, to cool down
#   LOCAL=1   everything is on this machine, without adb and without a power trace
set -eu
cd "$(dirname "$0")"
BIN=${{BIN:-/data/local/tmp/draftscope}} GGUF=${{GGUF:-model.gguf}} LITERTLM=${{LITERTLM:-model.litertlm}}
THREADS=${{THREADS:-4}} REST=${{REST:-60}} LOCAL=${{LOCAL:-}}

on_phone() {{
  local line="cd '$BIN' && export LD_LIBRARY_PATH=. && $1"
  if [ -n "$LOCAL" ]; then bash -c "$line"; else adb shell "$line"; fi
}}
failed() {{ echo "failed, see failed-${{1##*/}}" >&2; mv "$1" "failed-${{1##*/}}"; }}
bench() {{  # file, options
  echo "$1" >&2
  on_phone "./llama-bench -m '$GGUF' -t $THREADS -o jsonl $2" > "$1" || failed "$1"
  sleep "$REST"
}}
litert() {{  # file, options
  local line="./litert_lm_advanced_main --model_path=$LITERTLM --benchmark --num_cpu_threads=$THREADS $2"
  echo "$1" >&2
  {{ echo "$line"; on_phone "$line 2>&1"; }} > "$1" || failed "$1"
  sleep "$REST"
}}
trace_power() {{  # the rails for {seconds} s, while the next run goes on
  [ -n "$LOCAL" ] || adb shell perfetto --background --txt -c - -o {trace} < {config}
}}
keep_power() {{  # file
  [ -n "$LOCAL" ] || {{ sleep {seconds}; adb pull {trace} "$1"; }}
}}

mkdir -p {folders}
if [ -n "$LOCAL" ]; then cp {prompt} "$BIN/"; else adb push {prompt} "$BIN/"; fi
"""
_TRACE = "/data/misc/perfetto-traces/draftscope.perfetto-trace"
_LAYERS = {"cpu": 0, "gpu": 99, "tpu": 99}
_BACKENDS = {"cpu": "cpu", "gpu": "gpu", "tpu": "npu"}

_POWER = """\
# Power rails and battery counters, four times a second, for {seconds} s.
duration_ms: {milliseconds}
buffers {{
  size_kb: 16384
  fill_policy: RING_BUFFER
}}
data_sources {{
  config {{
    name: "android.power"
    android_power_config {{
      battery_poll_ms: 250
      battery_counters: BATTERY_COUNTER_CHARGE
      battery_counters: BATTERY_COUNTER_CURRENT
      collect_power_rails: true
    }}
  }}
}}
"""


def power_config() -> str:
    """Perfetto configuration that records the power rails."""
    return _POWER.format(seconds=TRACE_S, milliseconds=1000 * TRACE_S)


def script(prediction: Prediction) -> str:
    """The commands of every predicted stack, as a script for the computer that the phone hangs on.

    Parameters
    ----------
    prediction : Prediction
        From :func:`simulator.studies.kit.predicted`.
    """
    folders = [POWER, *(f"{RESULTS}/{each.id}" for each in prediction.runtimes)]
    head = _HEAD.format(
        when=f"{prediction.written_at:%Y-%m-%d}", device=prediction.device, target=prediction.target,
        trace=_TRACE, config=CONFIG, seconds=TRACE_S, folders=" ".join(folders), prompt=PROMPT_FILE,
    )  # fmt: skip
    return "\n".join([head, *("\n".join(commands(each)) + "\n" for each in prediction.runtimes)])


def commands(each: RuntimePrediction) -> list[str]:
    """Lines of the script for one stack.

    Parameters
    ----------
    each : RuntimePrediction
        Stack.
    """
    folder = f"{RESULTS}/{each.id}"
    if each.tool == "llama_bench":
        widths = ",".join(str(width) for width in range(1, 17))
        layers = f"-ngl {_LAYERS[each.engine]}"
        runs = {
            "llama_bench_widths.jsonl": f"-p {widths},512 -n 64 -d 0 -r 5",
            "llama_bench_depth.jsonl": "-p 1,4,8 -n 64 -d 1024 -r 3",
        }
        lines = [f'bench {folder}/{name} "{layers} {options}"' for name, options in runs.items()]
        watched = f'bench {folder}/llama_bench_power.jsonl "{layers} -p 0 -n 256 -d 0 -r 3"'
    else:
        backend = f"--backend={_BACKENDS[each.engine]} --max_num_tokens=2048"
        plain, drafting = (f"--enable_speculative_decoding={each}" for each in ("false", "true"))
        synthetic = "--benchmark_prefill_tokens={} --benchmark_decode_tokens={}"
        real = f"--input_prompt_file={PROMPT_FILE} --max_output_tokens=256"
        runs = {
            "litert_short.log": f"{backend} {plain} {synthetic.format(128, 128)}",
            "litert_long.log": f"{backend} {plain} {synthetic.format(1024, 128)}",
            "litert_prompt_plain.log": f"{backend} {plain} {real}",
            "litert_prompt_mtp.log": f"{backend} {drafting} --min_log_severity=0 {real}",
        }
        lines = [f'litert {folder}/{name} "{options}"' for name, options in runs.items()]
        watched = f'litert {folder}/litert_power.log "{backend} {plain} {synthetic.format(256, 256)}"'
    return [f"# {each.id}", *lines, "trace_power", watched, f"keep_power {POWER}/{each.id}.perfetto-trace"]
