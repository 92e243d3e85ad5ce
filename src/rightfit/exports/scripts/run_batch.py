"""Run a model over every row of a data set as a rightfit plan says, and end. Usage: python run.py run.json NODE_RANK NUM_NODES

Rows are cut into parts, which the replicas share. A part appears under its own name when it is whole, so that a new start does only what is
missing; when every part is there, results/complete.json says so. A row that cannot be read is left out and named in skipped-NUMBER.jsonl.
Told to stop (SIGTERM), a replica finishes its part and ends with 143.
"""

import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import run_core as core

RESULTS = "results"


def generator(plan):
    """Answers of a language model to prompts or conversations."""
    from vllm import LLM, SamplingParams

    model = LLM(model=plan["model"], **plan["engine"])
    asked = SamplingParams(max_tokens=plan["output_tokens"], temperature=0.0)

    def work(rows):
        if "messages" in rows.column_names:
            found = model.chat(list(rows["messages"]), asked)
        elif "prompt" in rows.column_names and model.get_tokenizer().chat_template:
            found = model.chat([core.as_chat({"prompt": prompt})["prompt"] for prompt in rows["prompt"]], asked)
        else:
            found = model.generate(list(rows["prompt" if "prompt" in rows.column_names else "text"]), asked)
        return [{"text": answer.outputs[0].text, "tokens": len(answer.outputs[0].token_ids)} for answer in found]

    return work


def embedder(plan):
    """Vectors of texts, as one array: as text they would take longer to write than to make."""
    import numpy as np
    from sentence_transformers import SentenceTransformer

    settings = {"model_kwargs": plan["engine"]} if plan["engine"] else {}
    model = SentenceTransformer(plan["model"], backend=plan["backend"], **settings)
    if plan["half"] and plan["backend"] == "torch":
        model.half()

    def work(rows):
        return np.asarray(model.encode(list(rows["text"]), batch_size=plan["batch"], show_progress_bar=False), np.float32)

    return work


class Unread:
    """In the place of an answer: what was wrong with a row."""

    def __init__(self, error):
        self.words = f"{type(error).__name__}: {error}"[:300]


def transcriber(plan):
    """What is said in recordings: several at once, since a short one alone fills no batch, and one is decoded while another is heard."""
    import threading
    from concurrent.futures import ThreadPoolExecutor

    from faster_whisper import BatchedInferencePipeline, WhisperModel
    from faster_whisper.audio import decode_audio

    place = Path(core.local(plan["data"]))
    folder = place if place.is_dir() else place.parent
    at_once = plan["at_once"]
    whole = WhisperModel(plan["model"], num_workers=at_once, **plan["engine"])
    batch = math.ceil(plan["batch"] / at_once)  # the plan's memory is for all of them together
    own, pool = threading.local(), ThreadPoolExecutor(at_once)

    def hear(value):
        if not hasattr(own, "model"):
            own.model = BatchedInferencePipeline(whole)  # it remembers what it is at; the weights are shared
        try:
            found = value if isinstance(value, dict) else {"path": value}
            sound = decode_audio(io.BytesIO(found["bytes"]) if found.get("bytes") else str(folder / found["path"]))
            if not len(sound):
                raise ValueError("no sound in it")
        except Exception as error:  # whatever a user's file may hold
            return Unread(error)
        segments, about = own.model.transcribe(sound, batch_size=batch)
        spoken = [{"start": round(part.start, 2), "end": round(part.end, 2), "text": part.text} for part in segments]
        return {"text": "".join(part["text"] for part in spoken).strip(), "language": about.language, "segments": spoken}

    return lambda rows: list(pool.map(hear, rows["audio"]))


def answered(work, rows):
    """(answers, {place: what was wrong}): of rows together, or where one of them is refused, each alone."""
    try:
        found = work(rows)
    except (ValueError, TypeError) as all_of_them:  # a text that is too long or none
        found, first = [], all_of_them
        for place in range(len(rows)):
            try:
                found.append(work(rows.select([place]))[0])
            except (ValueError, TypeError) as error:
                found.append(Unread(error))
        if all(isinstance(answer, Unread) for answer in found):
            raise first from None  # it is not the rows
    wrong = {place: answer.words for place, answer in enumerate(found) if isinstance(answer, Unread)}
    if isinstance(found, list) and any(hasattr(answer, "shape") for answer in found):  # vectors keep their places
        import numpy as np

        size = next(len(answer) for answer in found if hasattr(answer, "shape"))
        found = np.stack([np.full(size, np.nan, np.float32) if place in wrong else answer for place, answer in enumerate(found)])
    return found, wrong


def write(path, first, answers):
    """A part: an array of NumPy, a row for each, or a line of JSON for each with the number of its row."""
    if not isinstance(answers, list):
        import numpy as np

        with path.open("wb") as file:
            np.save(file, answers)
        return
    lines = (
        json.dumps({"row": first + place, **answer}, ensure_ascii=False) + "\n"
        for place, answer in enumerate(answers)
        if not isinstance(answer, Unread)
    )
    path.write_text("".join(lines))


KINDS = {"generate": generator, "embed": embedder, "transcribe": transcriber}


def undecoded(rows):
    """Sound as it is stored: the model's own program decodes it."""
    from datasets import Audio

    has_sound = isinstance(rows.features.get("audio"), Audio)
    return rows.cast_column("audio", Audio(decode=False)) if has_sound else rows


def replica(plan, number, count):
    """The parts of one replica, those that are there already left out."""
    stop = core.Stop()
    rows = undecoded(core.rows(plan))
    folder = Path(plan["output"], RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    size = plan["part_rows"]
    ending = "npy" if plan["kind"] == "embed" else "jsonl"
    names = [folder / f"part-{part:06d}.{ending}" for part in range(math.ceil(len(rows) / size))]
    missing = [part for part in range(number, len(names), count) if not names[part].exists()]
    print(json.dumps({"replica": number, "parts": len(names), "to_do": len(missing)}), flush=True)
    work = KINDS[plan["kind"]](plan) if missing else None
    told, read = 0, 0
    for part in missing:
        if stop:
            sys.exit(core.STOPPED)
        began, first = time.monotonic(), part * size
        chosen = rows.select(range(first, min(first + size, len(rows))))
        answers, wrong = answered(work, chosen)
        told, read = told + len(wrong), read + len(answers) - len(wrong)
        if wrong:
            lines = (json.dumps({"row": first + place, "error": words}, ensure_ascii=False) + "\n" for place, words in wrong.items())
            (folder / f"skipped-{part:06d}.jsonl").write_text("".join(lines))
        draft = names[part].with_suffix(".part")
        write(draft, first, answers)
        draft.replace(names[part])
        print(json.dumps({"part": part, "rows": len(answers), "skipped": len(wrong), "s": round(time.monotonic() - began, 3)}), flush=True)
    if told and not read:
        raise SystemExit(f"none of {told} rows could be read: {next(iter(wrong.values()), '')}")
    if all(name.exists() for name in names):
        for draft in folder.glob("*.part"):
            draft.unlink(missing_ok=True)
        core.mark_whole(folder)


def main():
    plan = core.settings()
    node, nodes = int(sys.argv[2]), int(sys.argv[3])
    here = plan["replicas_per_node"]
    if here == 1 or len(sys.argv) > 4:
        own = int(sys.argv[4]) if len(sys.argv) > 4 else 0
        replica(plan, node * here + own, nodes * here)
        return
    cards = plan["cards_per_replica"]
    children = []
    for own in range(here):
        seen = {"CUDA_VISIBLE_DEVICES": ",".join(str(card) for card in range(own * cards, (own + 1) * cards))} if cards else {}
        children.append(subprocess.Popen([sys.executable, *sys.argv[:4], str(own)], env={**os.environ, **seen}))  # noqa: S603  itself
    signal.signal(signal.SIGTERM, lambda *_: [child.terminate() for child in children])
    codes = [child.wait() for child in children]
    sys.exit(next((code for code in codes if code), 0))


main()
