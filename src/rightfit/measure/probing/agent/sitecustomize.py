"""Counts steps inside a Python program that rightfit probe runs. Python imports it at its start,
because its folder is first on PYTHONPATH.

It needs the standard library alone, swallows its own faults, and runs the user's own sitecustomize.
Hooks are set when a module is imported, so nothing is imported that the program does not import
itself: PyTorch's optimizer steps (torch.optim.optimizer.register_optimizer_step_post_hook) and
loaders, boosting rounds of XGBoost and LightGBM, fits of scikit-learn. Every process writes one
JSON file, whole or not at all.
"""

import atexit
import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import time

FOLDER = os.environ.get("RIGHTFIT_PROBE_DIR", "")
HERE = os.path.dirname(os.path.abspath(__file__))
#: Entries that are kept: a longer run joins neighbours, so that a million steps need no more room.
MOST_ENTRIES = 4096
WRITE_EVERY_S = 2.0
#: Steps before the time in which the program is said to be stepping: those that compile,
#: tune and fill caches.
WARM_UP = 3
#: With RIGHTFIT_PROBE_DEEP: steps before PyTorch's profiler starts, those that it warms up in,
#: those that it keeps; operators that are kept.
DEEP = bool(os.environ.get("RIGHTFIT_PROBE_DEEP"))
DEEP_WAIT, DEEP_WARM, DEEP_ACTIVE, MOST_OPERATORS = 10, 2, 3, 300


class Tally:
    """What was counted in this process."""

    def __init__(self):
        self.started = time.time()
        self.first = self.last = None
        self.steps = 0
        self.joined = 1
        self.open = [0.0, 0]
        self.intervals = []
        self.wait_s = 0.0
        self.wait_at_first = 0.0
        self.batches = 0
        self.batches_at_first = self.batches_at_step = 0
        self.stepped = None
        self.seen = set()
        self.shape = None
        self.kind = ""
        self.fit_s = 0.0
        self.fit_depth = 0
        self.error = ""
        self.written = 0.0
        self.profiler = None
        self.recording = False
        self.operators, self.profiled = [], 0
        self.rank = int(os.environ.get("RANK", "0") or 0)

    def step(self, who=0, kind="torch"):
        """One step of optimizer `who`: several optimizers that step without a batch fetched
        between are one step."""
        fetched = self.batches != self.batches_at_step
        again = who in self.seen
        if self.seen and not fetched and not again:
            self.seen.add(who)
            return
        self.seen, self.batches_at_step, self.kind = {who}, self.batches, kind
        now = time.perf_counter()
        if self.last is None:
            self.first, self.wait_at_first, self.batches_at_first = now, self.wait_s, self.batches
        elif self.profiler is None:  # a profiled step is no usual one
            self._add(now - self.last)
        self.last = now
        self.steps += 1
        if self.steps >= WARM_UP:
            self.stepped = [self.stepped[0] if self.stepped else time.time(), time.time()]
        if DEEP and kind == "torch":
            with contextlib.suppress(Exception):
                self.record_memory()
                self.profile_step()
            self.last = time.perf_counter()
        if now - self.written > WRITE_EVERY_S:
            self.write()

    def record_memory(self):
        """PyTorch records who allocates what, for the snapshot that an out-of-memory error leaves;
        from when the program itself has begun to use the card."""
        cuda = sys.modules["torch"].cuda
        if not self.recording and cuda.is_initialized():
            self.recording = True
            cuda.memory._record_memory_history(max_entries=100000)

    def profile_step(self):
        """Start PyTorch's profiler after the wait, move it on, and keep what it saw."""
        if self.steps == DEEP_WAIT and self.rank == 0:
            profiler = sys.modules["torch"].profiler
            schedule = profiler.schedule(wait=0, warmup=DEEP_WARM, active=DEEP_ACTIVE, repeat=1)
            more = {"acc_events": True} if "acc_events" in profiler.profile.__init__.__code__.co_varnames else {}
            self.profiler = profiler.profile(schedule=schedule, on_trace_ready=self.keep_profile, profile_memory=True, **more)
            self.profiler.start()
        elif self.profiler is not None:
            self.profiler.step()
            if self.steps >= DEEP_WAIT + DEEP_WARM + DEEP_ACTIVE:
                found, self.profiler = self.profiler, None
                found.stop()

    def keep_profile(self, profiler):
        """Time of each operator alone: on the host, on the card, and calls, of the steps kept."""
        found = []
        for event in profiler.key_averages():
            device = getattr(event, "self_device_time_total", getattr(event, "self_cuda_time_total", 0.0))
            memory = getattr(event, "self_device_memory_usage", 0) or getattr(event, "self_cpu_memory_usage", 0)
            found.append([event.key[:120], event.self_cpu_time_total / 1e6, device / 1e6, event.count, memory])
        found.sort(key=lambda row: -max(row[1], row[2]))
        self.operators, self.profiled = found[:MOST_OPERATORS], DEEP_ACTIVE

    def _add(self, interval):
        self.open[0] += interval
        self.open[1] += 1
        if self.open[1] == self.joined:
            self.intervals.append(self.open[0] / self.joined)
            self.open = [0.0, 0]
        if len(self.intervals) >= MOST_ENTRIES:
            pairs = zip(self.intervals[::2], self.intervals[1::2])
            self.intervals = [(left + right) / 2 for left, right in pairs]
            self.joined *= 2

    def document(self):
        """As JSON."""
        span = self.last - self.first if self.steps > 1 else 0.0
        return {
            "pid": os.getpid(),
            "argv": sys.argv[:1],
            "started": self.started,
            "written": time.time(),
            "rank": self.rank,
            "world_size": int(os.environ.get("WORLD_SIZE", "1") or 1),
            "kind": self.kind,
            "steps": self.steps,
            "first_after_s": None if self.first is None else self.first - START,
            "span_s": span,
            "joined": self.joined,
            "intervals": self.intervals,
            "stepped": self.stepped,
            "batches": self.batches_at_step if self.steps else self.batches,
            "batches_per_step": self.batches_per_step(),
            "wait_s": max(self.wait_s - self.wait_at_first, 0.0),
            "shape": self.shape,
            "fit_s": self.fit_s,
            "error": self.error,
            "operators": self.operators,
            "profiled": self.profiled,
            "versions": versions(),
            "gpus": gpus(),
        }

    def batches_per_step(self):
        """Between the first step and the last: loops fetch one batch ahead, and a run may
        end within a step."""
        if self.steps > 1:
            return (self.batches_at_step - self.batches_at_first) / (self.steps - 1)
        return float(self.batches_at_step)

    def write(self):
        """Write beside, then rename; a full disk or a folder that is gone loses the
        count and nothing else."""
        self.written = time.perf_counter()
        if not FOLDER or not (self.steps or self.fit_s or self.error or self.batches):
            return
        with contextlib.suppress(Exception):
            path = os.path.join(FOLDER, "%d.json" % os.getpid())
            with open(path + ".part", "w") as stream:
                json.dump(self.document(), stream)
            os.replace(path + ".part", path)


START = time.perf_counter()
TALLY = Tally()


def versions():
    """Versions of the libraries that are loaded."""
    names = ("torch", "transformers", "accelerate", "deepspeed", "lightning", "xgboost", "lightgbm", "sklearn", "tensorflow", "jax")
    return {name: str(getattr(sys.modules[name], "__version__", "")) for name in names if name in sys.modules}


def gpus():
    """Peaks of PyTorch's allocator by device, where CUDA was used."""
    torch = sys.modules.get("torch")
    found = []
    with contextlib.suppress(Exception):
        if torch.cuda.is_initialized():
            for index in range(torch.cuda.device_count()):
                allocated = torch.cuda.max_memory_allocated(index)
                if allocated:
                    stats = torch.cuda.memory_stats(index)
                    peaks = {
                        "allocated": allocated,
                        "reserved": torch.cuda.max_memory_reserved(index),
                        "now": torch.cuda.memory_allocated(index),
                        "name": torch.cuda.get_device_name(index),
                    }
                    found.append(dict(peaks, retries=stats.get("num_alloc_retries", 0), ooms=stats.get("num_ooms", 0), index=index))
    return found


# ---- hooks, one a module -------------------------------------------------------------------------


def hook_optimizer(module):
    """PyTorch's own global hook: one call is one optimizer step, so accumulation of gradients
    needs no special case."""
    module.register_optimizer_step_post_hook(lambda optimizer, _args, _kwargs: TALLY.step(id(optimizer)))


def hook_loader(module):
    """Time inside the loader's next is time that the loop waits for data."""
    iterator = module._BaseDataLoaderIter
    inner = iterator.__next__

    @functools.wraps(inner)
    def fetch(self):
        begun = time.perf_counter()
        batch = inner(self)
        TALLY.wait_s += time.perf_counter() - begun
        TALLY.batches += 1
        if DEEP:
            with contextlib.suppress(Exception):
                TALLY.record_memory()
        if TALLY.shape is None:
            TALLY.shape = shape_of(batch)
        return batch

    iterator.__next__ = fetch
    iterator.next = fetch


def shape_of(batch):
    """Whether they are tokens, and the shape of the token ids, else of the first tensor of a batch;
    an empty list where there is none. Whole numbers of two dimensions without a name are tokens
    where the program has loaded transformers: elsewhere they may be the columns of a table."""
    with contextlib.suppress(Exception):
        parts = batch if hasattr(batch, "keys") else {}
        tensor = (
            parts["input_ids"]
            if "input_ids" in parts
            else next(iter(parts.values()))
            if parts
            else batch[0]
            if isinstance(batch, (list, tuple))
            else batch
        )
        shape = [int(size) for size in tensor.shape]
        unnamed = (
            not parts and "transformers" in sys.modules and len(shape) == 2 and not (tensor.is_floating_point() or tensor.is_complex())
        )
        return [("input_ids" in parts) or unnamed, shape]
    return []


def hook_booster(module, kind):
    """One update of a booster is one boosting round."""
    inner = module.Booster.update

    @functools.wraps(inner)
    def update(self, *args, **kwargs):
        found = inner(self, *args, **kwargs)
        TALLY.batches += 1
        TALLY.step(id(self), kind)
        return found

    module.Booster.update = update


def hook_keras(module):
    """The end of a batch of Keras's training, on TensorFlow, JAX or PyTorch; there it is PyTorch's
    optimizer that counts."""
    callbacks = module.CallbackList
    inner = callbacks.on_train_batch_end

    @functools.wraps(inner)
    def end(self, *args, **kwargs):
        found = inner(self, *args, **kwargs)
        if TALLY.kind != "torch":
            TALLY.batches += 1
            TALLY.step(id(callbacks), "keras")
        return found

    callbacks.on_train_batch_end = end


def hook_sklearn(module):
    """The outermost fit of an estimator."""
    inner = module._fit_context

    def fit_context(*args, **kwargs):
        decorate = inner(*args, **kwargs)

        def decorator(fit):
            plain = decorate(fit)

            @functools.wraps(plain)
            def timed(*values, **named):
                TALLY.fit_depth += 1
                begun = time.perf_counter()
                try:
                    return plain(*values, **named)
                finally:
                    TALLY.fit_depth -= 1
                    if not TALLY.fit_depth:
                        TALLY.fit_s += time.perf_counter() - begun
                        TALLY.kind = TALLY.kind or "sklearn"

            return timed

        return decorator

    module._fit_context = fit_context


HOOKS = {
    "torch.optim.optimizer": hook_optimizer,
    "torch.utils.data.dataloader": hook_loader,
    "xgboost.core": lambda module: hook_booster(module, "xgboost"),
    "lightgbm.basic": lambda module: hook_booster(module, "lightgbm"),
    "keras.src.callbacks.callback_list": hook_keras,
    "sklearn.base": hook_sklearn,
}


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules with a hook as Python would, and sets the hook when they have run."""

    def find_spec(self, name, path=None, target=None):
        """The module's own spec, its loader wrapped; None for every other module."""
        if name not in HOOKS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        loader, run = spec.loader, spec.loader.exec_module

        def exec_module(module):
            run(module)
            with contextlib.suppress(Exception):
                HOOKS[name](module)

        with contextlib.suppress(Exception):
            loader.exec_module = exec_module
        return spec


def note_error(kind, error, trace, inner=sys.excepthook):
    """Keep what an out-of-memory error says."""
    with contextlib.suppress(Exception):
        if "OutOfMemory" in kind.__name__ or "out of memory" in str(error):
            TALLY.error = str(error)[:4000]
            TALLY.write()
            if DEEP and os.environ.get("RIGHTFIT_PROBE_SNAPSHOT"):
                sys.modules["torch"].cuda.memory._dump_snapshot("%s.%d.pickle" % (os.environ["RIGHTFIT_PROBE_SNAPSHOT"], os.getpid()))
    inner(kind, error, trace)


def forget():
    """A forked child counts for itself: what its parent counted stays there."""
    global TALLY
    TALLY = Tally()


def run_users_own():
    """The sitecustomize that Python would have found without us."""
    paths = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if FOLDER:
    with contextlib.suppress(Exception):
        sys.meta_path.insert(0, Finder())
        sys.excepthook = note_error
        atexit.register(lambda: TALLY.write())
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forget)

run_users_own()
