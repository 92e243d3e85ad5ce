"""What the programs of a rightfit plan share: settings, data, the signal to stop, whole checkpoints, and where figures are told. Imported by the
scripts beside it."""

import atexit
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from pathlib import Path

STOPPED = 128 + signal.SIGTERM
MARK = "complete.json"
EVALUATION = "evaluation.json"
MOST_HELD_OUT = 512
FORMATS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv", ".txt": "text"}
CHAT = """{% for message in messages %}<|{{ message['role'] }}|>
{{ message['content'] }}{{ eos_token }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""  # for base models, which have no template of chats: Zephyr's, which needs no new words
TRACKERS = {"mlflow": "MLFLOW_TRACKING_URI", "wandb": "WANDB_API_KEY", "tensorboard": "RIGHTFIT_TENSORBOARD"}


def settings():
    """The file of settings named on the command line."""
    return json.loads(Path(sys.argv[1]).read_text())


class Stop:
    """True from the moment on that the server is told to stop."""

    def __init__(self):
        self.asked = False
        atexit.register(end_children)
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_):
        self.asked = True

    def __bool__(self):
        return self.asked


def deaf(*_):
    """In a process that loads data: stay when the server is told to stop. Launchers tell all processes, and the step at work needs its rows."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def end_children():
    """End what is deaf: a program that fails would wait for it for ever."""
    for child in multiprocessing.active_children():
        child.kill()


def local(address, folder="/tmp/rightfit-data"):  # noqa: S108  a cache of the server's own
    """Where a data set lies on this server: one of a bucket is copied here first, by one process of the server."""
    if "://" not in address:
        return address
    import fsspec

    files, path = fsspec.core.url_to_fs(address)
    place = Path(folder, *Path(path).parts[-2:])
    done = place.with_name(place.name + ".here")
    if int(os.environ.get("LOCAL_RANK", "0")):
        while not done.exists():
            time.sleep(1)
        return str(place)
    if not done.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            shutil.rmtree(place)  # an earlier copy that was cut off
        files.get(path, str(place), recursive=True)
        done.touch()
    return str(place)


def rows(plan):
    """Rows of a folder, a file, a bucket (s3://, gs://, oss://) or a data set of the hub, with one of the sets of columns that the settings
    name."""
    from datasets import load_dataset

    path = Path(local(plan["data"]))
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in FORMATS and file.stem != "metadata")
    if files:
        kind = FORMATS[files[0].suffix]
        found = load_dataset(kind, data_files=[str(file) for file in files if FORMATS[file.suffix] == kind], split="train")
    elif path.exists():  # a folder of images or sound with metadata.jsonl
        found = load_dataset(str(path), split="train")
    else:  # the hub: OWNER/NAME, with a part of it OWNER/NAME:PART
        name, _, part = plan["data"].partition(":")
        found = load_dataset(name, part or None, split="train")
    found = joined(renamed(found, plan.get("columns", {})), plan["data_columns"])
    if not any(set(columns) <= set(found.column_names) for columns in plan["data_columns"]):
        wanted = " or ".join(", ".join(columns) for columns in plan["data_columns"])
        raise SystemExit(f"{plan['data']} has the columns {', '.join(found.column_names)}; this needs {wanted}")
    return found


def joined(found, wanted):
    """Rows of instruction, input and output (the columns of Alpaca) as prompts with their completions, where the program reads those."""
    names = set(found.column_names)
    if ["prompt", "completion"] not in wanted or not {"instruction", "output"} <= names or any(set(columns) <= names for columns in wanted):
        return found

    def pair(row):
        asked = [row["instruction"], row.get("input")]
        return {"prompt": "".join(f"{part}\n\n" for part in asked if part), "completion": row["output"]}

    return found.map(pair, remove_columns=found.column_names)


ROLES = {"prompt": "user", "completion": "assistant", "chosen": "assistant", "rejected": "assistant"}


def as_chat(row):
    """The same row as conversations where it has strings: for models with a template of chats, by which they are served as well."""
    return {
        name: [{"role": ROLES[name], "content": value}] if name in ROLES and isinstance(value, str) else value
        for name, value in row.items()
    }


def recompute_parts():
    """Contexts of a layer's checkpoint that keep the outputs of attention and of every second matrix product, and recompute the rest: what a plan
    counts as selective recomputation, and torchtitan's policy."""
    import torch
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    ops = torch.ops.aten
    products = {ops.mm.default, ops.addmm.default, ops.bmm.default}
    attention = [
        getattr(ops, f"_scaled_dot_product_{name}", None) for name in ("flash_attention", "efficient_attention", "cudnn_attention")
    ]
    kept = {one.default for one in attention if one is not None}
    counts = {False: 0, True: 0}

    def policy(context, op, *_, **__):
        if op in products:
            counts[context.is_recompute] += 1
            return CheckpointPolicy.MUST_SAVE if counts[context.is_recompute] % 2 else CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def recompute_selectively(model):
    """Whoever turns checkpoints of layers on in this model gets those that recompute parts of them."""
    whole = model.gradient_checkpointing_enable

    def enable(gradient_checkpointing_kwargs=None):
        whole(
            gradient_checkpointing_kwargs={**(gradient_checkpointing_kwargs or {}), "use_reentrant": False, "context_fn": recompute_parts}
        )

    model.gradient_checkpointing_enable = enable
    return model


def renamed(found, columns):
    """The data with its columns under the names that the program knows: {its name: theirs}."""
    for name, theirs in columns.items():
        if theirs not in found.column_names:
            raise SystemExit(f"the data have no column {theirs}; they have {', '.join(found.column_names)}")
        if name != theirs:
            found = (found.remove_columns(name) if name in found.column_names else found).rename_column(theirs, name)
    return found


def split(found, plan):
    """(Rows to learn from, rows that are held out to judge what was learnt; None where there are too few to spare any)."""
    count = min(int(len(found) * plan.get("held_out", 0.0)), MOST_HELD_OUT)
    if not count:
        return found, None
    held = {number * (len(found) // count) for number in range(count)}
    learnt = [number for number in range(len(found)) if number not in held]
    return found.select(learnt, keep_in_memory=True), found.select(sorted(held), keep_in_memory=True)


def judged(output, figures):
    """Write what the held-out rows say of the result."""
    kept = {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}
    (Path(output) / EVALUATION).write_text(json.dumps(kept, indent=2))
    print(json.dumps({"evaluation": kept}), flush=True)


def mark_whole(folder):
    """Say that all of a checkpoint is written: the sizes of its files, so that a copy of it that was cut off is not taken for whole."""
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in Path(folder).rglob("*") if file.is_file() and file.name != MARK}
    draft = Path(folder) / f"{MARK}.part"
    draft.write_text(json.dumps(sizes))
    draft.replace(Path(folder) / MARK)


def is_whole(folder):
    """Whether a checkpoint has every file in its size."""
    try:
        sizes = json.loads((Path(folder) / MARK).read_text())
        return all((Path(folder) / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def whole(output, prefix):
    """Whole checkpoints, oldest first: PREFIX and the number of their step."""
    found = [folder for folder in Path(output).glob(f"{prefix}*") if folder.name[len(prefix) :].isdigit() and is_whole(folder)]
    return sorted(found, key=lambda folder: int(folder.name[len(prefix) :]))


def tidy(output, prefix, kept=2):
    """Remove what was cut off, and all whole checkpoints but the last ones."""
    last = whole(output, prefix)[-kept:]
    for folder in Path(output).glob(f"{prefix}*"):
        if folder not in last and folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


def trackers():
    """Programs that the environment names as those to tell figures to, by the names of Transformers' report_to."""
    asked = [name for name, variable in TRACKERS.items() if os.environ.get(variable)]
    if missing := [name for name in asked if not importlib.util.find_spec(name)]:
        raise SystemExit(f"the environment asks to report to {', '.join(missing)}, which is not installed: pip install {' '.join(missing)}")
    return asked


class Report:
    """Figures of the first process: JSON lines to the log, and to what the environment names (MLFLOW_RUN_ID goes on with that run)."""

    def __init__(self, plan, *, speaks=True):
        self.speaks, self.to = speaks, trackers() if speaks else []
        if "mlflow" in self.to:
            import mlflow

            mlflow.start_run()
            mlflow.set_tag("rightfit-plan", plan["plan"])
        if "wandb" in self.to:
            import wandb

            wandb.init(config=plan, id=os.environ.get("WANDB_RUN_ID"), resume="allow")
        if "tensorboard" in self.to:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(os.environ["RIGHTFIT_TENSORBOARD"])

    def __call__(self, **values):
        if not self.speaks:
            return
        print(json.dumps(values), flush=True)
        step = values.pop("step", None)
        if step is None:
            return
        if "mlflow" in self.to:
            import mlflow

            mlflow.log_metrics(values, step=step)
        if "wandb" in self.to:
            import wandb

            wandb.log(values, step=step)
        if "tensorboard" in self.to:
            for name, value in values.items():
                self.writer.add_scalar(name, value, step)

    def close(self):
        if "mlflow" in self.to:
            import mlflow

            mlflow.end_run()
        if "wandb" in self.to:
            import wandb

            wandb.finish()
        if "tensorboard" in self.to:
            self.writer.close()
