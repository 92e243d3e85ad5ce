"""What the notes of the old rows say, moved once into the columns that a case has:
`columns_from_notes.csv`, to be reviewed and then kept.

    python validation/columns_from_notes.py            # write the table anew
    python validation/columns_from_notes.py --check    # is it what the notes say?

Predictors read no notes (`rightfit predict --columns` lists what they read). Rows read before that
was so tell some facts in their notes alone: the size of a picture, what counted the memory, how
requests came. This script reads those words and nothing else does. Each line of its table is one
value of one column: the words it was taken from, and the rows. `rightfit.proof.tables` puts the
values into the rows; a value that begins with ';' is appended.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from rightfit import facts
from rightfit.facts.tables import constants, says, shape
from rightfit.proof.serving_predict import is_generation
from rightfit.proof.tables import COLUMNS_FROM_NOTES, raw_table

HERE = Path(__file__).resolve().parent
COLUMNS = ("table", "column", "value", "words", "rows", "ids")

#: A fact: column -> (value, the words of the notes that say it).
Facts = dict[str, tuple[str, str]]
Row = Mapping[str, str]


def _first(pattern: str | re.Pattern[str], text: str) -> str:
    found = re.search(pattern, text, re.IGNORECASE) if isinstance(pattern, str) else pattern.search(text)
    return found[0].strip() if found else ""


def _put(found: Facts, column: str, value: object, words: str) -> None:
    if value and words:
        found[column] = (f"{value:g}" if isinstance(value, float) else str(value), words)


# language models that serve -----------------------------------------------------------------------

_LINKS = r"nvswitch|nvlink|\befa\b|infiniband|\broce\b|tcpx\w*|erdma|ethernet|\d+(?:\.\d+)? ?(?:x ?\d+ ?)?gb(?:it/s|ps)"
_DEGREES = r"({degree})[= ](\d+)"
_CACHE = r"(?:kv[-_ ]?(?:cache)?[-_ ]?{cache_setting}?[-_ =:]*({cache_format}))|(?:({cache_format_before})[-_ ]?kv)"


def _data_set(notes: str, model: str) -> str:
    for row in facts.table("serving_datasets"):
        if (words := _first(row["words"], notes)) and (not row["models"] or re.search(row["models"], model.lower())):
            return words
    return ""


def _degrees(row: Row, notes: str, found: Facts) -> None:
    """Copies of the attention and cards that share the experts. `--tp 8 --ep 8` names the same
    eight cards twice: 64 multiplied the two."""
    words = {match[1]: (float(match[2]), match[0]) for match in shape("serving", _DEGREES).finditer(notes)}
    attention = words.get("attn_dp") or words.get("attention_dp")
    experts, cut = words.get("moe_ep") or words.get("ep"), words.get("moe_tp")
    count, tensor = float(row["n_devices"] or 0), float(row["tp"] or 0)
    if cut and experts and cut[0] == experts[0] > 1 and count == cut[0] ** 2:
        same = cut[0]
        _put(found, "n_devices", same, f"{cut[1]} {experts[1]}")
        _put(found, "tp", min(tensor, same), f"{cut[1]} {experts[1]}")
        attention = (min(attention[0], same), attention[1]) if attention else None
    for column, degree in (("dp", attention), ("ep", experts)):
        if degree and degree[0] > 1:
            _put(found, column, degree[0], degree[1])


def _serving(row: Row) -> Facts:
    notes, found = row["notes"].lower(), Facts()
    stated = row["batch_or_concurrency"].lower()
    _put(found, "dataset", words := _data_set(notes, row["model"]), words)
    count = shape("serving", r"([\d,]+)\s*(?:k )?{counted}")
    if not count.search(stated) and (match := count.search(notes)) and match[1].strip(","):
        _put(found, "num_requests", match[1].strip(",").replace(",", ""), match[0])
    if "static" in notes:
        _put(found, "arrival", "batch", "static")
    _degrees(row, notes, found)
    if split := _first(r"layer[ _]split|device_map", notes):
        _put(found, "split", "layers", split)
    if not row["kv_dtype"] and (match := shape("serving", _CACHE).search(notes)):
        _put(found, "kv_dtype", next(word for word in match.groups() if word), match[0])
    if "gemv" in notes:
        _put(found, "flags", "gemv", "gemv")
    if cache := re.search(r"cache seq (\d+)", notes):
        _put(found, "cache_tokens", cache[1], cache[0])
    if device := re.search(r"offload device: (\w+)", notes):
        _put(found, "offload", device[1], device[0])
    if row["metric"] == "peak_mem_gib":
        _put(found, "counter", "allocator", _first("torch|allocated", notes))
        _put(found, "counter_scope", "sum", _first("(?:sum|total) over", notes))
    return found


# everything that is one forward pass --------------------------------------------------------------

_PIXELS = r"(?<![\d.])(\d{2,4})\s?{pixel}|{side_name}[ _]?{size_name}?[ =:]+(\d{2,4})\b(?!\s?x)|imgsz[ =:]*(\d{2,4})\b"
_SIZES = r"(?<![\w.])(\d{2,4})\s?[x\u00d7]\s?(\d{2,4})(?:\s?[x\u00d7]\s?(\d{1,4}))?(?![\d_])"
_LINES = r"(?<![\w.])(\d{3,4})p\b"
_FRAMES = r"(\d{1,3})[ -]?frames?\b|frames?[ =:]+(\d{1,3})\b"
_AUDIO = r"(\d+(?:\.\d+)?)[ -]?({duration})\b[^;,]*{sound}|audio[^;,]*?(\d+(?:\.\d+)?)[ -]?({duration_after_audio})\b"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_SOCKETS = r"(?<![\w.])(\d)[ -]?(?:S\b|x?\s?sockets?\b)|\b({two})[ -]socket"
_NUMBERS = {
    "denoise_steps": r"(\d{1,3})[ -]{step_kind}?steps?\b|steps?[ =:]+(\d{1,3})\b",
    "beams": r"beam(?:s| size)?[ =:]*(\d+)",
    "gmacs": r"(\d+(?:\.\d+)?)\s?gmacs",
    "mactivations": r"(\d+(?:\.\d+)?)\s?m activations",
    "memory_tokens": r"memory length[ =:]*([\d,]+)",
}
_MULTISTREAM = 8  # samples of one query of MLPerf's multi-stream scenario
_SQUAD_TOKENS = constants("forward_work")["squad_tokens"]
#: Words that tell what ran, in the order in which they are written into `flags`.
_FLAGS = (
    r"\bxla\b",
    r"torch\.?compile|cuda ?graph|inductor",
    "channels_last",
    "(?<=for)maskedlm",
    "autocast",
    "pipeline",
    "real time",
    "tensor parallel",
)


def _shape_in(name: str, notes: str) -> tuple[float, str]:
    found = shape("forward", name, ignore_case=True).search(notes)
    return (float(next(group for group in found.groups() if group).replace(",", "")), found[0]) if found else (0.0, "")


def _image(notes: str, found: Facts) -> None:
    """The size of a picture as it is written: "224", "512x512", "720p"."""
    pixels, words = _shape_in(_PIXELS, notes)
    if pixels:
        _put(found, "image_size", pixels, words)
        return
    for name in (_LINES, _SIZES):
        if words := _first(name, notes):
            _put(found, "image_size", words.replace("\u00d7", "x").replace(" ", ""), words)
            return


def _arrival(row: Row, notes: str, found: Facts) -> None:
    text = row["batch_or_concurrency"]
    told = re.search(r"\d", text)
    if told is None and re.search(r"\bserver\b", notes):
        _put(found, "arrival", "open", "server")
    elif told is None and (words := _first(shape("forward", "{one_stream}"), notes)):
        _put(found, "arrival", "single", words)
    elif told is None and (words := _first(r"multi.?stream", notes)):
        _put(found, "arrival", "single", words)
        _put(found, "batch_or_concurrency", str(_MULTISTREAM), words)
    elif told is None and not says("forward", "offline", text.lower()) and row["request_rate"] != "inf":
        size, words = _shape_in(r"\b{batch_name}[ =:]*(\d+)", notes)
        _put(found, "batch_or_concurrency", size, words)
    if "arrival" not in found and told and "stream" in notes:
        _put(found, "arrival", "single", "stream")


def _forward(row: Row) -> Facts:
    notes, found = row["notes"].lower(), Facts()
    if "dimension=3" not in notes:
        _image(notes, found)
        _put(found, "frames", *_shape_in(_FRAMES, notes))
    for column, name in _NUMBERS.items():
        _put(found, column, *_shape_in(name, notes))
    if match := shape("forward", _AUDIO, ignore_case=True).search(notes):
        value, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
        _put(found, "audio_s", float(value) * _UNITS[unit[0].lower()], match[0])
    if words := _first(shape("forward", "{per_step}", ignore_case=True), notes):
        _put(found, "latency_scope", "step", words)
    if "mlperf" in notes and "bert" in row["model"].lower():
        _put(found, "input_tokens", _SQUAD_TOKENS, "mlperf")
    if "mlperf" in notes and "closed" in notes and row["weights_dtype"].lower() == "fp32":
        # Closed submissions through TensorRT are quantised; the field of the result
        # file says otherwise.
        _put(found, "weights_dtype", "int8", "mlperf closed")
    if "autocast matmult-bf16" in notes:
        _put(found, "compute_dtype", "bf16", "autocast matmult-bf16")
    if not row["engine"]:
        _engine(notes, found)
    _arrival(row, notes, found)
    flags = [words for name in _FLAGS if (words := _first(name, notes))]
    _put(found, "flags", "; ".join(flags), "; ".join(flags))
    _hardware(row, found)
    return found


def _engine(notes: str, found: Facts) -> None:
    for engine in facts.table("forward_engines"):
        if words := _first(engine["pattern"], notes):
            _put(found, "engine", words, words)
            return


def _hardware(row: Row, found: Facts) -> None:
    """Cards that a table shortens (L40 to L4), and sockets, which some tables count as cores
    or memory domains."""
    if row["device"] == "L4" and (words := _first(shape("forward", "{l40_system}"), row["notes"])):
        _put(found, "device", "L40", words)
    if match := shape("forward", _SOCKETS, ignore_case=True).search(row["notes"]):
        _put(found, "sockets", match[1] or "2", match[0])


def of_inference(row: Row) -> Facts:
    """What the notes of a row of the inference table say."""
    found = _serving(row) if is_generation(dict(row)) else _forward(row)
    _put(found, "interconnect", words := _first(_LINKS, row["notes"].lower()), words)
    words = _first(shape("serving", "{virtual}", ignore_case=True), f"{row['notes']} {row['source_where']}")
    _put(found, "host", "virtual", words)
    return found


# training -----------------------------------------------------------------------------------------


def of_training(row: Row) -> Facts:
    """What the remarks of a row of the tables of language-model training say."""
    remarks, found = row["flags"].lower(), Facts()
    _put(found, "lengths", "shorter", _first("shorter than max|real lengths vary|dynamic padding", remarks))
    if words := _first(r"forward\+backward only", remarks):
        _put(found, "extra_flags", f";{words}", words)
    if row["metric"] == "time_to_train_h" and "mlperf" in row["source"]:
        _put(found, "dataset", "MLPerf", row["source"])
    return found


_COUNTERS = (
    ("reserved", "reserved"),
    (r"nvidia-smi|cpu memory \(whole job\)", "driver"),
    ("allocated", "allocator"),
    ("peak", "allocator"),
    ("requirement|approximate", "driver"),
)


def of_samples(row: Row) -> Facts:
    """What the notes of a row of the tables of other training say."""
    notes, found = row["notes"], Facts()
    if match := re.search(r"params?\s*[:=]?\s*(\d+(?:\.\d+)?)\s*M\b", notes):
        _put(found, "params", str(round(float(match[1]) * 1e6)), match[0])
    if "20 ms" in notes:
        _put(found, "unit", "audio frame of 20 ms", "20 ms")
    if row["metric"] == "peak_mem_gib_per_gpu":
        _counter(row, notes.lower(), found)
        if recompute := _first(shape("training", "{recompute_told}"), notes.lower()):
            _put(found, "extra_flags", f";{recompute}", recompute)
    told = re.search(r"(?<![a-z_])steps?[ =:]+(\d+)(?![.\d])|(?<![\d.])(\d+) steps?\b", notes, re.IGNORECASE)
    if row["metric"] == "time_to_train_min" and (match := told):
        _put(found, "steps", match[1] or match[2], match[0])
    if "training_results" in row["source"]:
        _put(found, "dataset", "MLPerf", row["source"])
    return found


def _counter(row: Row, notes: str, found: Facts) -> None:
    """The first kind of counter that the notes name, unless the flags name one
    that comes before it."""
    flags = row["extra_flags"].lower()
    for words, counter in _COUNTERS:
        name = shape("training", "{peak_counted}") if words == "peak" else re.compile(words)
        if name.search(flags):
            return
        if told := _first(name, notes):
            _put(found, "counter", counter, told)
            return


# tables and loaders -------------------------------------------------------------------------------

_SPARSE_FOR_ONE = r"xgboost sees one-hot sparse, the others take categoricals"
_PINNED = (
    ("both threads", r"cpuset [\d,-]+ ht\b"),
    ("everything", r"cpuset [\d,-]+ all\b"),
    ("both sockets", r"cpuset [\d,-]+ numa\b"),
    ("cores", r"cpuset"),
)


def of_classical(row: Row) -> Facts:
    """What the notes of a row of classical machine learning say."""
    notes, found = row["notes"], Facts()
    library = row["library"].lower()
    if words := _first(_SPARSE_FOR_ONE, notes):
        _put(found, "density", "one-hot sparse" if says("classical", "sees_one_hot", library) else "", words)
    elif words := _first("one-hot[ a-z]*sparse|sparse format", notes):
        _put(found, "density", "one-hot sparse", words)
    if match := re.search(r"(\d+) categorical", notes):
        _put(found, "categorical", match[1], match[0])
    for pinning, name in _PINNED:
        if words := _first(name, notes):
            _put(found, "pinning", pinning, words)
            break
    if row["metric"] == "peak_ram_gib":
        _put(found, "counter", "added", _first(shape("classical", "{added_memory}"), notes))
        _put(found, "rounded_to_gib", 1.0, _first(shape("classical", "{whole_gib}", ignore_case=True), notes))
    return found


def of_loading(row: Row) -> Facts:
    """What the notes of a row on loaders say."""
    notes, found = row["notes"].casefold(), Facts()
    if match := re.search(r"([\d,]+) images\b(?!/)", notes):
        _put(found, "samples", match[1].replace(",", ""), match[0])
    if words := _first(shape("loading", "{gpu_decoder}"), notes):
        _put(found, "loader", f";{words}", words)
    return found


READERS: Mapping[str, Callable[[Row], Facts]] = {
    "inference": of_inference,
    "train_memory": of_training,
    "train_throughput": of_training,
    "vision_train": of_samples,
    "vision_oom": of_samples,
    "classical_ml": of_classical,
    "data_loading": of_loading,
}


# the table ----------------------------------------------------------------------------------------


def _number_of(name: str) -> tuple[str, int, int]:
    head, digits = re.fullmatch(r"(.*?)(\d*)", name).groups()  # type: ignore[union-attr]
    return head, int(digits or 0), len(digits)


def ranges(ids: Iterable[str]) -> str:
    """Names of rows with runs of one number after another as FIRST..LAST."""
    parts: list[str] = []
    for _, run in itertools.groupby(enumerate(ids), key=lambda item: (_number_of(item[1])[0], _number_of(item[1])[1] - item[0])):
        names = [name for _, name in run]
        parts += [names[0] if len(names) == 1 else f"{names[0]}..{_number_of(names[-1])[1]}"]
    return " ".join(parts)


def lines() -> Iterator[dict[str, str]]:
    """Every line of the table."""
    for name, reader in READERS.items():
        found: dict[tuple[str, str], tuple[list[str], dict[str, int]]] = {}
        for row in raw_table(HERE / "truth", name):
            for column, (value, words) in reader(row).items():
                ids, told = found.setdefault((column, value), ([], {}))
                ids.append(row["id"])
                told[words] = told.get(words, 0) + 1
        for (column, value), (ids, told) in sorted(found.items()):
            often = sorted(told, key=lambda words: (-told[words], words))
            words = " | ".join(often[:4]) + (f" | and {len(often) - 4} more" if len(often) > 4 else "")
            yield {"table": name, "column": column, "value": value, "words": words, "rows": str(len(ids)), "ids": ranges(ids)}


def text() -> str:
    """The whole table."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines())
    return stream.getvalue()


def main(argv: list[str] | None = None) -> int:
    """Write the table, or say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the table is not what the notes say")
    path = HERE / COLUMNS_FROM_NOTES
    if parser.parse_args(argv).check:
        return int(path.read_text(encoding="utf-8") != text())
    path.write_text(text(), encoding="utf-8")
    print(f"{path.name}: {len(path.read_text(encoding='utf-8').splitlines()) - 1} lines")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
