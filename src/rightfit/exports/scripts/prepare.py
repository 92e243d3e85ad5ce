"""Prepare data as a rightfit plan says: text, images or tables. Usage: python run.py run.json

Work on single files is spread over the processors by Ray Data, and each result appears under its own name when it is whole: a new start does only what
is missing. Work on a whole table is done by Polars or Spark in one piece. results/complete.json says that all is there.
"""

import hashlib
import json
import re
import sys
import time
from pathlib import Path

import run_core as core

plan = core.settings()
RESULTS = Path(plan["output"], "results")
TEXTS, IMAGES, TABLES = (".jsonl", ".txt", ".parquet"), (".jpg", ".jpeg", ".png", ".webp"), (".csv",)


def documents(file):
    """Texts of a file: a line each of JSON ("text") or of plain text, or the column "text" of Parquet."""
    if file.suffix == ".parquet":
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(file).iter_batches(columns=["text"]):
            yield from batch["text"].to_pylist()
        return
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"] if file.suffix == ".jsonl" else line.rstrip("\n")


def write_texts(path, texts):
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)


def tokenize(file, draft):
    """Numbers of tokens one behind the other, each text ended by its mark."""
    import numpy as np
    from tokenizers import Tokenizer

    words = Tokenizer.from_file(plan["tokenizer_file"])
    end = words.token_to_id(plan["end_of_text"])
    if end is None:
        raise SystemExit(f"the tokenizer has no {plan['end_of_text']}")
    kind = np.uint16 if words.get_vocab_size() <= 65536 else np.uint32
    parts = [np.array([*words.encode(text).ids, end], kind) for text in documents(file)]
    with draft.open("wb") as out:
        np.save(out, np.concatenate(parts) if parts else np.empty(0, kind))
    return sum(len(part) for part in parts)


def is_good(text):
    """The rules by which Gopher's data were filtered (Rae et al. 2021), with the limits of the settings."""
    rules, words = plan["rules"], text.split()
    if not rules["least_words"] <= len(words) <= rules["most_words"]:
        return False
    mean = sum(map(len, words)) / len(words)
    symbols = (text.count("#") + text.count("...") + text.count("\u2026")) / len(words)
    letters = sum(any(letter.isalpha() for letter in word) for word in words) / len(words)
    return (
        rules["least_mean_word"] <= mean <= rules["most_mean_word"]
        and symbols <= rules["most_symbols"]
        and letters >= rules["least_letters"]
    )


def filter_text(file, draft):
    kept = [text for text in documents(file) if is_good(text)]
    write_texts(draft, kept)
    return len(kept)


def hashes(file, draft):
    """A mark of each text, spaces and case aside."""
    found = [hashlib.blake2b(re.sub(r"\s+", " ", text).strip().casefold().encode(), digest_size=16).hexdigest() for text in documents(file)]
    draft.write_text("\n".join(found))
    return len(found)


def first_ones(file, draft):
    """The texts of a file that stand in none before it."""
    numbers = set(json.loads((RESULTS.parent / "first" / f"{file.name}.json").read_text()))
    kept = [text for number, text in enumerate(documents(file)) if number in numbers]
    write_texts(draft, kept)
    return len(kept)


def resize(file, draft):
    """The shorter side at the settings' pixels, as JPEG."""
    import cv2

    image = cv2.imread(str(file))
    if image is None:
        raise SystemExit(f"{file} is no image")
    scale = plan["pixels"] / min(image.shape[:2])
    if plan["operation"] == "resize-images" and scale < 1:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    draft.write_bytes(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, plan["quality"]])[1].tobytes())
    return 1


def convert(file, draft):
    import polars

    polars.scan_csv(file).sink_parquet(draft)
    return 1


BY_FILE = {
    "tokenize": (tokenize, TEXTS, ".npy"),
    "filter-text": (filter_text, TEXTS, ".jsonl"),
    "resize-images": (resize, IMAGES, ".jpg"),
    "encode-images": (resize, IMAGES, ".jpg"),
    "convert": (convert, TABLES, ".parquet"),
}


def sources(endings):
    place = Path(core.local(plan["data"]))
    found = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.suffix.casefold() in endings)
    if not found:
        raise SystemExit(f"{plan['data']} has no files {', '.join(endings)}")
    return found


def each(work, files, folder, ending):
    """Do the files whose result is missing, on all processors. Names that differ in their folder alone stay apart."""
    import ray

    folder.mkdir(parents=True, exist_ok=True)
    base = Path(core.local(plan["data"]))
    names = {file: (str(file.relative_to(base)) if base.is_dir() else file.name).replace("/", "--") + ending for file in files}
    missing = [file for file in files if not (folder / names[file]).exists()]
    print(json.dumps({"files": len(files), "to_do": len(missing)}), flush=True)
    if not missing:
        return

    def one(row):
        began, file = time.monotonic(), Path(row["file"])
        draft = folder / f".{row['name']}.part"
        count = work(file, draft)
        draft.replace(folder / row["name"])
        return {"name": row["name"], "count": count, "s": round(time.monotonic() - began, 3)}

    ray.init(num_cpus=plan["threads"], log_to_driver=False, include_dashboard=False, configure_logging=False)
    stop = core.Stop()  # after Ray's own
    ray.data.DataContext.get_current().enable_progress_bars = False
    todo = ray.data.from_items([{"file": str(file), "name": names[file]} for file in missing], override_num_blocks=len(missing))
    for done in todo.map(one).iter_rows():
        print(json.dumps(done), flush=True)
        if stop:
            sys.exit(core.STOPPED)
    ray.shutdown()


def dedup_text():
    """A mark for each text; of texts with the same mark the first stays."""
    files, marks, first = sources(TEXTS), RESULTS.parent / "marks", RESULTS.parent / "first"
    each(hashes, files, marks, ".marks")
    first.mkdir(exist_ok=True)
    seen, place = set(), Path(core.local(plan["data"]))
    for file in files:
        name = (str(file.relative_to(place)) if place.is_dir() else file.name).replace("/", "--")
        chosen = []
        for number, mark in enumerate((marks / f"{name}.marks").read_text().split()):
            if mark not in seen:
                seen.add(mark)
                chosen.append(number)
        (first / f"{file.name}.json").write_text(json.dumps(chosen))
    each(first_ones, files, RESULTS, ".jsonl")


def whole_table():
    """Rows once, or in chance's order, by Polars."""
    import polars

    files = sources((".parquet", ".csv"))
    reads = polars.scan_csv if files[0].suffix == ".csv" else polars.scan_parquet
    table = reads([file for file in files if file.suffix == files[0].suffix])
    RESULTS.mkdir(parents=True, exist_ok=True)
    draft = RESULTS / ".table.part"
    if plan["operation"] == "dedup":
        table.unique(maintain_order=True).sink_parquet(draft)
    else:
        table.collect().sample(fraction=1.0, shuffle=True, seed=0).write_parquet(draft)
    draft.replace(RESULTS / "table.parquet")


def spark_table():
    """The same, and CSV to Parquet, by Spark."""
    from pyspark.sql import SparkSession, functions

    builder = SparkSession.builder.appName(plan["plan"]).config("spark.sql.session.timeZone", "UTC")
    session = builder.master(f"local[{plan['threads']}]").config("spark.driver.memory", plan["memory"]).getOrCreate()
    place = core.local(plan["data"])
    csv = Path(place).suffix == ".csv" or any(Path(place).rglob("*.csv"))
    table = session.read.csv(place, header=True, inferSchema=True) if csv else session.read.parquet(place)
    if plan["operation"] == "dedup":
        table = table.dropDuplicates()
    if plan["operation"] == "shuffle":
        table = table.orderBy(functions.rand(seed=0))
    # Spark itself writes aside and moves what is whole.
    table.write.mode("overwrite").parquet(str(RESULTS))
    session.stop()


def main():
    if core.is_whole(RESULTS):
        print(json.dumps({"done": True}), flush=True)
        return
    if plan["library"] == "spark":
        spark_table()
    elif plan["operation"] in BY_FILE:
        work, endings, ending = BY_FILE[plan["operation"]]
        each(work, sources(endings), RESULTS, ending)
    elif plan["operation"] == "dedup-text":
        dedup_text()
    else:
        whole_table()
    for draft in RESULTS.glob(".*.part"):
        draft.unlink()
    core.mark_whole(RESULTS)
    print(json.dumps({"done": True}), flush=True)


main()
