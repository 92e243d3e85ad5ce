"""Record how the parameters and the arithmetic of every class of transformers follow from its configuration: the table
src/rightfit/facts/data/config_classes.jsonl.

Usage: record_config_classes.py OUT.jsonl [TYPE ...], with torch (CPU) and transformers installed; about 40 minutes on
two cores for all types. Classes are built on the meta device, so no weights are made.

Every dimension of every parameter is followed while one key of the configuration after another is changed (to twice and
three times its value): what it is in proportion to, or adds up from, becomes a product or a sum of keys. Flags are turned,
kinds of layers exchanged. `error_variants` compares the sums that follow with the class itself in configurations where
several keys are changed at once, which no sum was made from; `check` of tests/oracle/test_config_coverage.py repeats that.
"""

import itertools
import json
import math
import os
import random
import re
import signal
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import importlib.abc
import importlib.machinery
import types

import torch


class Anything(type):
    def __getattr__(cls, n):
        if n.startswith("__"):
            raise AttributeError(n)
        sub = Anything(n, (Dummy,), {})
        setattr(cls, n, sub)
        return sub


class Dummy(metaclass=Anything):
    def __init__(self, *a, **k):
        pass

    def __call__(self, *a, **k):
        return self


class Frozen(torch.nn.Module):
    def __init__(self, n, eps=1e-5):
        super().__init__()
        for k in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(k, torch.ones(n))


class Fake(types.ModuleType):
    __path__ = []

    def __getattr__(self, n):
        if n.startswith("__"):
            raise AttributeError(n)
        return Frozen if n == "FrozenBatchNorm2d" else Dummy


class Loader(importlib.abc.Loader):
    def create_module(self, spec):
        return Fake(spec.name)

    def exec_module(self, m):
        m.__version__ = "0.28.0"


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(name, Loader(), is_package=True)


sys.meta_path.insert(0, Finder())
torch.set_num_threads(1)
import transformers.models.auto as auto
import transformers.models.auto.modeling_auto as A
from transformers import CONFIG_MAPPING, AutoModel
from transformers.configuration_utils import PreTrainedConfig
from transformers.initialization import no_init_weights

HEADS = [
    ("vlm", "AutoModelForImageTextToText"),
    ("speech", "AutoModelForSpeechSeq2Seq"),
    ("seq2seq", "AutoModelForSeq2SeqLM"),
    ("causal", "AutoModelForCausalLM"),
    ("multimodal", "AutoModelForMultimodalLM"),
    ("ctc", "AutoModelForCTC"),
    ("image", "AutoModelForImageClassification"),
    ("detection", "AutoModelForObjectDetection"),
    ("zero-shot-detection", "AutoModelForZeroShotObjectDetection"),
    ("segmentation", "AutoModelForSemanticSegmentation"),
    ("segmentation", "AutoModelForUniversalSegmentation"),
    ("depth", "AutoModelForDepthEstimation"),
    ("masks", "AutoModelForMaskGeneration"),
    ("video", "AutoModelForVideoClassification"),
    ("audio", "AutoModelForAudioClassification"),
    ("tts", "AutoModelForTextToWaveform"),
    ("tts", "AutoModelForTextToSpectrogram"),
    ("rnnt", "AutoModelForRNNT"),
    ("tdt", "AutoModelForTDT"),
    ("series", "AutoModelForTimeSeriesPrediction"),
    ("base", "AutoModel"),
]
SKIP = re.compile(
    r"token_id|^use_cache|output_|return_dict|chunk_size_feed|_dropout|dropout|_prob$|initializer|_eps$|^eps$|is_decoder|problem_type|"
    r"torch_dtype|^dtype|loss|temperature|threshold|_coef|_cost|mask_|num_beams|max_length|theta|token_index|_token_|_weight$|scale$|transformers_version"
)


class TimeUp(Exception):
    pass


def alarm(*_):
    raise TimeUp()


def task_class(name, cfg):
    if (
        name in A.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and name not in A.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
        and type(cfg) in AutoModel._model_mapping
    ):
        return "encoder", AutoModel
    for task, cls in HEADS:
        c = getattr(auto, cls, None) or getattr(__import__("transformers"), cls, None)
        if c is None:
            continue
        try:
            if type(cfg) in c._model_mapping:
                return task, c
        except Exception:
            pass
    return None, None


def flat(cfg, prefix=""):
    out = {}
    for k, v in vars(cfg).items():
        if k.startswith("_") or k in ("id2label", "label2id", "transformers_version", "architectures"):
            continue
        if isinstance(v, PreTrainedConfig):
            out.update(flat(v, prefix + k + "."))
        elif isinstance(v, dict):
            continue
        else:
            out[prefix + k] = v
    if not prefix:
        out["num_labels"] = cfg.num_labels if hasattr(cfg, "num_labels") else 0
    return out


def rebuild(cfg, changes, *, explicit=True):
    """A config of the same class with `changes` (dotted key -> value); lists of layer kinds are worked out anew."""

    def make(c, prefix):
        kw = {}
        fresh = None
        for k, v in vars(c).items():
            if k.startswith("_") or k in ("id2label", "label2id", "transformers_version", "architectures", "model_type"):
                continue
            key = prefix + k
            if isinstance(v, PreTrainedConfig):
                kw[k] = make(v, key + ".")
                continue
            if (
                isinstance(v, (list, tuple))
                and (any(isinstance(x, (str, bool)) for x in v) or k.startswith("layer"))
                and key not in changes
            ):
                continue
            if not explicit and key not in changes:
                if not prefix:
                    continue
                if fresh is None:
                    try:
                        fresh = type(c)()
                    except Exception:
                        fresh = False
                if fresh is not False and getattr(fresh, k, None) == v:
                    continue
            kw[k] = changes.get(key, v)
            if isinstance(kw[k], tuple):
                kw[k] = list(kw[k])
        for key, v in changes.items():
            if key.startswith(prefix) and "." not in key[len(prefix) :]:
                kw[key[len(prefix) :]] = v
        return type(c)(**kw)

    return make(cfg, "")


def build(auto_cls, cfg):
    with torch.device("meta"), no_init_weights():
        m = auto_cls.from_config(cfg)
        try:
            m.tie_weights()
        except TimeUp:
            raise
        except Exception:
            pass
    emb = set()
    for n, mod in m.named_modules():
        if isinstance(mod, torch.nn.Embedding):
            emb.add(n + ".weight")
    return {n: tuple(p.shape) for n, p in m.named_parameters()}, emb, type(m).__name__


def near(a, b, tol=1e-6):
    return abs(a - b) <= tol * max(1.0, abs(a), abs(b))


def power(v0, v1, k0, k1):
    if v0 <= 0 or v1 <= 0 or k0 <= 0 or k1 <= 0 or k0 == k1:
        return None
    e = math.log(v1 / v0) / math.log(k1 / k0)
    r = round(e)
    return r if r and abs(e - r) < 1e-3 and abs(r) <= 4 else None


def express(v0, moves):
    """Polynomial {monomial: coefficient} of a value from its moves {key: [(k0, k1, v1), ...]}; a monomial is a sorted tuple of (key, exponent)."""
    pure, rest = {}, {}
    for key, seen in moves.items():
        e = {power(v0, v1, k0, k1) for k0, k1, v1 in seen}
        if len(e) == 1 and None not in e:
            pure[key] = (e.pop(), seen[0][0])
        else:
            rest[key] = seen
    scale = 1.0
    for key, (e, k0) in pure.items():
        scale *= k0**e
    inner0 = v0 / scale
    parts = []
    for key, seen in rest.items():
        k0, k1, v1 = seen[0]
        e = 1
        if len(seen) > 1:
            k2, v2 = seen[1][1], seen[1][2]
            for e_ in (1, 2, -1, -2, 3):
                a, b = (v1 - v0), (v2 - v0)
                if near(a * (k2**e_ - k0**e_), b * (k1**e_ - k0**e_), 2e-2):
                    e = e_
                    break
        alpha = (v1 - v0) / scale / (k1**e - k0**e)
        parts.append((key, e, k0, alpha * k0**e))
    groups = []
    for p in parts:
        for g in groups:
            if near(g[0][3], p[3], 1e-4):
                g.append(p)
                break
        else:
            groups.append([p])
    poly, const = {}, inner0
    options = [("product" if len(g) > 1 else "sum",) if len(g) == 1 else ("product", "sum") for g in groups]
    best = None
    for choice in itertools.islice(itertools.product(*options), 64):
        left = inner0 - sum(g[0][3] * (1 if c == "product" else len(g)) for g, c in zip(groups, choice))
        score = (abs(left) > 1e-6 * max(1, abs(inner0)), sum(c == "sum" and len(g) > 1 for g, c in zip(groups, choice)))
        if best is None or score < best[0]:
            best = (score, choice, left)
    _, choice, left = best if best else (0, (), inner0)
    terms = []
    for g, c in zip(groups, choice):
        if c == "product":
            mono = {key: e for key, e, k0, _ in g}
            terms.append((mono, g[0][3] / math.prod(k0**e for _, e, k0, _ in g)))
        else:
            for key, e, k0, contribution in g:
                terms.append(({key: e}, contribution / k0**e))
    if abs(left) > 1e-6 * max(1, abs(inner0)):
        terms.append(({}, left))
    for mono, c in terms:
        m = dict(mono)
        for key, (e, _) in pure.items():
            m[key] = m.get(key, 0) + e
        k = tuple(sorted(m.items()))
        poly[k] = poly.get(k, 0) + c
    return poly


def multiply(a, b):
    out = {}
    for (m, c), (n, d) in itertools.product(a.items(), b.items()):
        s = dict(m)
        for k, e in n:
            s[k] = s.get(k, 0) + e
        k = tuple(sorted((x, e) for x, e in s.items() if e))
        out[k] = out.get(k, 0) + c * d
    return out


def evaluate(poly, values):
    return sum(c * math.prod(values[k] ** e for k, e in m) for m, c in poly.items())


def norm(name):
    return re.sub(r"\d+", "#", name)


def number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def keys_of(f):
    out = {}
    for k, v in f.items():
        if SKIP.search(k.rpartition(".")[2]):
            continue
        if number(v) and v > 0 and v == v and v not in (float("inf"),):
            out[k] = v
        elif isinstance(v, (list, tuple)) and v and all(number(x) and x > 0 for x in v) and len(v) <= 16:
            for i, x in enumerate(v):
                out[f"{k}.{i}#"] = x
        elif (
            isinstance(v, (list, tuple))
            and v
            and all(isinstance(r, (list, tuple)) and r and all(number(x) for x in r) for r in v)
            and len(v) <= 8
        ):
            pass
    return out


def changed(f, key, value):
    """(real key, value to give) of a key that may be an element of a list"""
    if key.endswith("#"):
        base, _, i = key[:-1].rpartition(".")
        lst = list(f[base])
        lst[int(i)] = value
        return base, lst
    return key, value


def steps(v):
    if isinstance(v, float) and not v.is_integer():
        return [v * 2, v * 4, v / 2]
    v = int(v)
    return [v * 2, v * 3, v * 4, v + 1, v + 2, max(v // 2, 1), v + 8]


def part_of(name, is_embedding):
    if re.search(r"(^|\.)experts\.|\.experts|block_sparse_moe.*experts|expert_\d", name):
        return "x"
    if re.search(r"vision|visual|image_encoder|vit\b|patch_embed|pixel|vpm", name):
        return "v"
    if re.search(r"audio|speech_encoder|sound", name):
        return "a"
    return "e" if is_embedding else "t"


def record(name):
    try:
        one = record_from(name, shrink=True)
    except TimeUp:
        raise
    except Exception as e:
        one = {"failed": str(e)}
    if one.get("why") or (not one.get("failed") and abs(one["error_default"]) < 2e-3 and all(abs(e) < 5e-3 for e in one["error_variants"])):
        return one
    two = record_from(name, shrink=False)
    score = lambda r: sum(min(abs(e), 1) for e in [r["error_default"], *r["error_variants"]])
    return two if one.get("failed") or score(two) <= score(one) else one


def record_from(name, shrink, limit=100):
    t_end = time.time() + limit
    cfg0 = CONFIG_MAPPING[name]()
    task, cls = task_class(name, cfg0)
    if cls is None:
        return {"type": name, "why": "no model class"}
    out = {"type": name, "task": task, "config": type(cfg0).__name__}
    try:
        base0, emb, model_class = build(cls, cfg0)
    except TimeUp:
        raise
    except Exception as e:
        return {**out, "why": f"does not build: {type(e).__name__} {str(e)[:150]}"}
    out["class"] = model_class
    out["count"] = sum(math.prod(s) for s in base0.values())
    out["subtypes"] = {k: v.model_type for k, v in vars(cfg0).items() if isinstance(v, PreTrainedConfig)}
    out["map"] = dict(getattr(cfg0, "attribute_map", {}) or {})
    # A base with explicit scalars, none of them None where a value gives the same model.
    explicit = True
    try:
        c1 = rebuild(cfg0, {})
        if build(cls, c1)[0] != base0:
            raise ValueError
    except TimeUp:
        raise
    except Exception:
        explicit = False
        c1 = cfg0
    f0 = flat(cfg0)
    fill = {}
    hidden = [v for k, v in f0.items() if re.search(r"(hidden_size|d_model|n_embd|embed_dim)$", k) and number(v)]
    heads = [
        v for k, v in f0.items() if re.search(r"(num_attention_heads|n_head|n_heads|num_heads|encoder_attention_heads)$", k) and number(v)
    ]
    for k, v in f0.items():
        if v is None and re.search(
            r"(intermediate_size|n_inner|ffn_dim|head_dim|kv_heads|num_key_value_heads|key_value_heads|out_hidden_size|d_kv|_rank|hidden_dim|ffn_hidden_size)$",
            k,
        ):
            for cand in [*heads[:2], *(h * 4 for h in hidden[:2]), *hidden[:2], *(h // n for h, n in zip(hidden, heads))]:
                try:
                    if build(cls, rebuild(cfg0, {**fill, k: cand}, explicit=explicit))[0] == base0:
                        probe = build(cls, rebuild(cfg0, {**fill, k: cand * 2}, explicit=explicit))[0]
                        if probe != base0:
                            fill[k] = cand
                        break
                except TimeUp:
                    raise
                except Exception:
                    continue
    f = {**f0, **fill}
    base = base0
    if shrink:
        few = {
            k: 8
            for k, v in f.items()
            if re.search(r"(num_hidden_layers|n_layers?|num_layers|encoder_layers|decoder_layers|^depth|\.depth)$", k)
            and number(v)
            and v > 8
        }
        if not few:
            shrink = False
        else:
            cs = rebuild(cfg0, {**fill, **few}, explicit=explicit)
            base = build(cls, cs)[0]
            fs = flat(cs)
            fill = {**fill, **few}
            f = {**fs, **fill}
    out["shrunk"] = shrink
    keys = keys_of(f)

    def variant(ch):
        return build(cls, rebuild(cfg0, {**fill, **ch}, explicit=explicit))[0]

    runs = {}  # key -> [(k0,k1,params)]
    dead = []
    for key, v in keys.items():
        if time.time() > t_end:
            raise TimeUp()
        got = []
        for s in steps(v):
            if s == v or len(got) >= 1:
                continue
            try:
                got.append((v, s, variant(dict([changed(f, key, s)]))))
            except TimeUp:
                raise
            except Exception:
                continue
        if not got:
            dead.append(key)
            continue
        if got[0][2] != base:
            for s in [*[x for x in steps(v)[1:3]], *([max(int(v) // 2, 1)] if number(v) and v >= 2 else []), *steps(v)]:
                if s in (v, got[0][1]):
                    continue
                try:
                    got.append((v, s, variant(dict([changed(f, key, s)]))))
                    break
                except TimeUp:
                    raise
                except Exception:
                    continue
            runs[key] = got
    flags = {}
    for key, v in f.items():
        if isinstance(v, bool) and not SKIP.search(key.rpartition(".")[2]):
            try:
                p = variant({key: not v})
            except TimeUp:
                raise
            except Exception:
                continue
            if p != base:
                flags[key] = (v, p)
    lists = {}
    for key, v in f.items():
        if isinstance(v, (list, tuple)) and len(v) > 1 and all(isinstance(x, str) for x in v) and len(set(v)) <= 6:
            for a, b in itertools.permutations(sorted(set(v)), 2):
                i = max(j for j, x in enumerate(v) if x == a)
                new = list(v)
                new[i] = b
                try:
                    p = variant({key: new})
                except TimeUp:
                    raise
                except Exception:
                    continue
                if p != base:
                    lists[key, a, b] = p
    # groups: normalised name + shape in base and in every run that keeps the names
    sig = {}
    for n, s in base.items():
        sig.setdefault((norm(n), s) + tuple(r[0][2].get(n, s) for r in runs.values()), []).append(n)
    first = {}
    for g in sig:
        first.setdefault((g[0], g[1]), g)
    terms = {}
    exprs = {}

    def add(part, poly, cond):
        for m, c in poly.items():
            k = (part, m, tuple(sorted(cond.items())))
            terms[k] = terms.get(k, 0) + c

    for g, names in sig.items():
        n0 = names[0]
        dims = []
        for i, d in enumerate(base[n0]):
            moves = {}
            for key, rs in runs.items():
                seen = [(a, b, p[n0][i]) for a, b, p in rs if n0 in p and len(p[n0]) == len(base[n0])]
                if seen and any(x[2] != d for x in seen):
                    moves[key] = seen
            dims.append(express(d, moves))
        # multiplicity: names of this normal form and base shape; where several groups share these, by their own names
        shared = [h for h in sig if h[0] == g[0] and h[1] == g[1]]
        mult_moves, m0 = {}, len(names)
        for key, rs in runs.items():
            seen = []
            for a, b, p in rs:
                extra = 0
                if len(shared) == 1:
                    kept = sum(1 for n in names if n in p)
                    new = sum(1 for n in p if n not in base and norm(n) == g[0] and (p[n] == base[n0] or p[n] == p.get(n0)))
                    m1 = kept + new
                else:
                    kept = sum(1 for n in names if n in p)
                    new = sum(1 for n in p if n not in base and norm(n) == g[0] and (p[n] == base[n0]))
                    total = sum(len(sig[h]) for h in shared)
                    m1 = kept + new * m0 / total
                seen.append((a, b, m1))
            if any(x[2] != m0 for x in seen):
                mult_moves[key] = seen
        counted = {}
        for (key, a, b), p in lists.items():
            m1 = sum(1 for n in p if norm(n) == g[0] and (p[n] == base[n0]))
            na = sum(x == a for x in f[key])
            if len(shared) == 1 and m1 != m0 and near(m1 / m0, (na - 1) / na):
                counted[f"{key}={a}"] = na
        if counted:
            k, na = next(iter(counted.items()))
            mult_moves = {key: s for key, s in mult_moves.items() if not re.search(r"layers?$|n_layer|depth", key)}
            mult = multiply({((k, 1),): 1.0 / na}, express(m0, mult_moves))
        else:
            mult = express(m0, mult_moves)
        cond = {key: v for key, (v, p) in flags.items() if n0 not in p}
        poly = mult
        for d in dims:
            poly = multiply(poly, d)
        exprs[norm(n0)] = (mult, dims, base[n0])
        add(part_of(n0, n0 in emb), poly, cond)
    for key, (v, p) in flags.items():
        fresh = {}
        for n, s in p.items():
            if n not in base or base[n] != s:
                fresh.setdefault((norm(n), s), []).append(n)
        moved = [n for n in p if n in base and base[n] != p[n]]
        for (nn, s), names in fresh.items():
            sib = exprs.get(nn) or exprs.get(re.sub(r"bias$", "weight", nn))
            if names[0] in base:  # replaced: take the old away under the flag
                mult, dims, shape = exprs[nn]
                new = []
                for d, dv, sv in zip(dims, shape, s):
                    new.append({m: c * sv / dv for m, c in d.items()} if dv else d)
                a = b = mult
                for d in new:
                    a = multiply(a, d)
                for d in dims:
                    b = multiply(b, d)
                share = len(names) / max(1, sum(1 for n in base if norm(n) == nn))
                add("t", {m: c * share for m, c in a.items()}, {key: not v})
                add("t", {m: -c * share for m, c in b.items()}, {key: not v})
                continue
            poly = {(): float(len(names) * math.prod(s))}
            if sib and sib[2][: len(s)] == s:
                poly = sib[0]
                for d in sib[1][: len(s)]:
                    poly = multiply(poly, d)
                scale = len(names) / evaluate(sib[0], values_of(f, sib[0]))
                poly = {m: c * scale for m, c in poly.items()}
            else:
                pool = {}
                for mult, dims, shape in exprs.values():
                    for d, dv in zip(dims, shape):
                        pool.setdefault(dv, d)
                mults = {}
                for mult, dims, shape in exprs.values():
                    mults.setdefault(round(evaluate(mult, values_of(f, mult))), mult)
                poly = mults.get(len(names), {(): float(len(names))})
                for dv in s:
                    poly = multiply(poly, pool.get(dv, {(): float(dv)}))
            add("t", poly, {key: not v})
    total = sum(math.prod(x) for x in base.values())
    kept = {k: c for k, c in terms.items() if c}
    # defaults: constants, or followers of other keys
    used = sorted({k for (_, m, _), _ in kept.items() for k, _ in m} | {k for (_, _, cond) in kept for k, _ in cond})
    follows = {}
    cheap = {}
    keys0 = keys_of(f0)
    for key in keys0:
        ch = None
        for s in steps(keys0[key])[:4]:
            try:
                ch = (keys0[key], s, flat(rebuild(cfg0, dict([changed(f0, key, s)]), explicit=False)))
                break
            except TimeUp:
                raise
            except Exception:
                continue
        if ch:
            cheap[key] = ch
    for k in used:
        if "=" in k or k.endswith("#") or isinstance(f.get(k), bool) or not number(f.get(k)):
            continue
        moves = {
            key: [(a, b, ff.get(k))]
            for key, (a, b, ff) in cheap.items()
            if key != k and number(ff.get(k)) and not (k in fill and f0.get(k) is None) and ff.get(k) != f0.get(k)
        }
        if moves:
            follows[k] = express(f0[k], moves)
        elif k in fill and f0.get(k) is None:
            h, n = (hidden or [0])[0], (heads or [0])[0]
            hk = next((kk for kk, vv in f0.items() if vv == h and re.search(r"(hidden_size|d_model|n_embd|embed_dim)$", kk)), None)
            nk = next(
                (
                    kk
                    for kk, vv in f0.items()
                    if vv == n and re.search(r"(num_attention_heads|n_head|n_heads|num_heads|encoder_attention_heads)$", kk)
                ),
                None,
            )
            v = fill[k]
            if nk and v == n and "head" in k and "dim" not in k:
                follows[k] = {((nk, 1),): 1.0}
            elif (hk and nk and v == h // n and "head_dim" in k) or "d_kv" in k:
                follows[k] = {((hk, 1), (nk, -1)): 1.0}
            elif hk and h and v % h == 0:
                follows[k] = {((hk, 1),): v / h}
    values = {k: value_of({**f, **{k2: v for k2, v in f0.items() if v is not None}}, k) for k in used}
    poly_total = lambda vals: sum(
        c * math.prod(vals[k] ** e for k, e in m) for (_, m, cond), c in kept.items() if all(vals[k] == b for k, b in cond)
    )
    out["error_default"] = poly_total(values) / out["count"] - 1 if out["count"] else 0
    # joint variants
    rnd = random.Random(5)
    grads = sorted(runs, key=lambda k: -abs(sum(math.prod(s) for s in runs[k][0][2].values()) - total))[:12]
    errs, tried = [], 0
    while len(errs) < 4 and tried < 24 and time.time() < t_end:
        tried += 1
        pick = rnd.sample(grads, min(len(grads), rnd.choice((2, 3, 4)))) if grads else []
        if not pick:
            break
        ch = {}
        ff = dict(f)
        for k in pick:
            kk, val = changed(ff, k, rnd.choice(steps(keys[k])[:3]))
            ch[kk] = val
            ff[kk] = val
        try:
            cc = rebuild(cfg0, {**fill, **ch}, explicit=explicit)
            p = build(cls, cc)[0]
        except TimeUp:
            raise
        except Exception:
            continue
        fl = {**flat(cc)}
        fl = {**ff, **{k: v for k, v in fl.items() if isinstance(v, (list, tuple))}}
        real = sum(math.prod(s) for s in p.values())
        if os.environ.get("SHOW"):
            print("variant", {k: (f.get(k), v) for k, v in ch.items()}, real)
        try:
            errs.append(poly_total({k: value_of(fl, k) for k in used}) / real - 1)
        except Exception:
            errs.append(9.0)
    out["error_variants"] = errs
    out["undecided"] = dead
    out["terms"] = [[part, c, list(map(list, m)), dict(cond)] for (part, m, cond), c in kept.items()]
    out["follows"] = {k: [[c, list(map(list, m))] for m, c in p.items()] for k, p in follows.items()}
    out["defaults"] = {
        k: v
        for k, v in {**f, **{k2: v2 for k2, v2 in f0.items() if v2 is not None}}.items()
        if isinstance(v, (int, float, str, bool, list, tuple)) and not SKIP.search(k.rpartition(".")[2])
    }
    out["none"] = sorted(k for k in fill if f0.get(k) is None)
    return out


def value_of(f, k):
    if "=" in k:
        key, _, v = k.partition("=")
        return sum(x == v for x in f[key])
    if k.endswith("#"):
        b, _, i = k[:-1].rpartition(".")
        return f[b][int(i)] if int(i) < len(f[b]) else 0
    return f[k]


def values_of(f, poly):
    return {k: value_of(f, k) for m in poly for k, _ in m}


CLASSES = ("conv", "grouped", "depthwise", "conv3d", "linear", "recurrent", "score")


def first(f, *names):
    for n in names:
        for k, v in f.items():
            if k == n or k.endswith("." + n):
                if isinstance(v, (list, tuple)) and v and all(number(x) for x in v):
                    v = v[-1]
                if number(v) and v > 0:
                    return int(v)
    return None


def inputs_of(m, f, task, name):
    main = getattr(m, "main_input_name", "input_ids")
    if isinstance(main, (list, tuple)):
        main = main[0]
    ch = first(f, "num_channels", "in_channels", "in_chans", "num_input_channels") or 3
    side = first(f, "image_size", "input_size", "img_size", "crop_size")
    if not side or side < 16:
        side = (
            800
            if task in ("detection",)
            else 640
            if "deim" in name or "rt_detr" in name or "d_fine" in name
            else 224
            if task in ("image", "base", "video")
            else 512
        )
    frames = first(f, "num_frames", "frames_per_clip") or 16
    mel = first(f, "num_mel_bins", "feature_size", "input_feat_per_channel", "num_mel_filters", "n_mels") or 80
    d = "meta"
    pic = torch.zeros(1, ch, side, side, device=d)
    opts = {
        "pixel_values": [pic, torch.zeros(1, frames, 3, side, side, device=d)],
        "pixel_values_videos": [torch.zeros(1, frames, 3, side, side, device=d)],
        "input_values": [torch.zeros(1, 160000, device=d), torch.zeros(1, 1, 240000, device=d), torch.zeros(1, 1024, mel, device=d)],
        "input_features": [torch.zeros(1, mel, 3000, device=d), torch.zeros(1, 1000, mel, device=d)],
    }
    return main, opts.get(main, []), side


def work_of(name):
    cfg = CONFIG_MAPPING[name]()
    task, cls = task_class(name, cfg)
    if cls is None or task in ("causal", "encoder", "seq2seq", "vlm", "multimodal", "speech"):
        return None
    with torch.device("meta"), no_init_weights():
        m = cls.from_config(cfg)
    m.eval()
    f = flat(cfg)
    main, tries, side = inputs_of(m, f, task, name)
    if not tries:
        return None
    why = None
    for x in tries:
        tally = {
            "macs": dict.fromkeys(CLASSES, 0.0),
            "elements": dict.fromkeys(CLASSES, 0.0),
            "layers": dict.fromkeys(CLASSES, 0),
            "widest": 0.0,
            "tokens": 0.0,
            "attended": 0.0,
            "kernel": 0,
            "upsamplings": 0,
            "blocks": 0.0,
            "steps": 0.0,
            "operators": {},
        }
        hooks = []

        def hook(mod, inp, out, nm):
            o = out[0] if isinstance(out, tuple) else out
            if not torch.is_tensor(o):
                return
            n = float(o.numel())
            if isinstance(mod, torch.nn.Linear):
                kind = "linear"
                macs = n * mod.in_features
                rows = n / max(1, mod.out_features)
                tally["tokens"] = max(tally["tokens"], rows)
                last = nm.rpartition(".")[2].lower()
                if last in ("q_proj", "query", "q", "q_lin", "query_proj", "wq", "to_q") or last in (
                    "qkv",
                    "in_proj",
                    "qkv_proj",
                    "query_key_value",
                ):
                    length = o.shape[-2] if o.dim() > 2 else rows
                    width = mod.out_features / (3 if "qkv" in last or last in ("in_proj", "query_key_value") else 1)
                    tally["macs"]["score"] += 2 * rows * length * width
                    tally["layers"]["score"] += 1
                    tally["blocks"] += 1
                    tally["attended"] = max(tally["attended"], float(length))
                    tally["elements"]["score"] += rows * width
            elif isinstance(mod, (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)):
                kind = "recurrent"
                macs = (n / o.shape[-1]) * sum(p.numel() for p in mod.parameters())
                tally["steps"] += o.shape[1] if o.dim() > 2 else o.shape[0]
            else:
                w = mod.weight
                g = mod.groups
                trans = isinstance(mod, (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d))
                macs = (inp[0].numel() * w.numel() / w.shape[0]) if trans else n * w.numel() / w.shape[0]
                kind = "conv3d" if w.dim() == 5 else "depthwise" if g > 1 and g == mod.in_channels else "grouped" if g > 1 else "conv"
                if trans:
                    tally["upsamplings"] += 1
                if kind == "depthwise":
                    tally["kernel"] = max(tally["kernel"], max(w.shape[2:]))
            tally["macs"][kind] += macs
            tally["elements"][kind] += n
            tally["layers"][kind] += 1
            tally["widest"] = max(tally["widest"], n)

        for nm, mod in m.named_modules():
            if isinstance(
                mod,
                (
                    torch.nn.Linear,
                    torch.nn.Conv1d,
                    torch.nn.Conv2d,
                    torch.nn.Conv3d,
                    torch.nn.ConvTranspose1d,
                    torch.nn.ConvTranspose2d,
                    torch.nn.ConvTranspose3d,
                    torch.nn.LSTM,
                    torch.nn.GRU,
                    torch.nn.RNN,
                ),
            ):
                hooks.append(mod.register_forward_hook(lambda a, b, c, nm=nm: hook(a, b, c, nm)))
        try:
            with torch.no_grad():
                m(**{main: x})
            done = True
        except TimeUp:
            raise
        except Exception as e:
            done = False
            why = f"{type(e).__name__} {str(e)[:100]}"
        for h in hooks:
            h.remove()
        total = sum(tally["macs"][k] for k in CLASSES if k != "score")
        # what fails after the layers (post-processing on data) has been counted all the same
        late = not done and total > 0 and any(s in (why or "") for s in ("meta", "item", "data", "nonzero", "cpu"))
        if done or (late and tally["layers"]["linear"] + tally["layers"]["conv"] > 0.8 * len(hooks)):
            tally = {k: ({a: (round(b) if b else 0) for a, b in v.items() if b} if isinstance(v, dict) else v) for k, v in tally.items()}
            body = sum(p.numel() for n, p in m.named_parameters())
            return {
                "type": name,
                "work": {**tally, "main": main, "input": list(x.shape[1:]), "side": side, "body": body, "params_whole": done},
            }
    return {"type": name, "nowork": why}


def num(c):
    r = round(c)
    return r if abs(c - r) < 1e-9 * max(1, abs(c)) else float(f"{c:.9g}")


def one_line(r):
    """A record as a line of the table; None where the class could not be built or its sums are off."""
    t = r["type"]
    if r.get("why") or "terms" not in r:
        return None
    e = [r["error_default"], *r["error_variants"]]
    if abs(e[0]) > 0.02 or not r["count"]:
        return None
    terms = []
    for part, c, powers, flags in r["terms"]:
        if not c:
            continue
        powers = [[k, p] for k, p in powers if p]
        terms.append([part, num(c), powers, [[k, v] for k, v in flags.items()]])

    def val(k):
        f = r["defaults"]
        if "=" in k:
            a, _, b = k.partition("=")
            return sum(x == b for x in f.get(a, []))
        if k.endswith("#"):
            b, _, i = k[:-1].rpartition(".")
            v = f.get(b, [])
            return v[int(i)] if int(i) < len(v) else 0
        return f.get(k, 1) if not isinstance(f.get(k, 1), (str, list)) else 1

    def share(t):
        try:
            return abs(t[1] * math.prod(val(k) ** p for k, p in t[2])) / r["count"]
        except Exception:
            return 1

    if len(terms) > 150:
        terms = [t for t in terms if share(t) > 3e-4]
    used = {k for _, _, p, fl in terms for k, _ in [*p, *fl]}
    used |= {k for v in r["follows"].values() for _, m in v for k, _ in m} | set(r["follows"])
    base = {k.partition("=")[0] if "=" in k else (k[:-1].rpartition(".")[0] if k.endswith("#") else k) for k in used}
    d = {}
    for k, v in r["defaults"].items():
        if isinstance(v, list) and v and all(isinstance(x, str) for x in v):
            if k in base or "layer" in k:
                c = {}
                for x in v:
                    c[x] = c.get(x, 0) + 1
                d[k] = c
        elif isinstance(v, list):
            if k in base and len(v) <= 64:
                d[k] = v
        elif isinstance(v, bool):
            if k in base:
                d[k] = v
        elif isinstance(v, (int, float)):
            if v == v and abs(v) != float("inf"):
                if k in base or re.search(
                    r"layers?$|heads?$|size$|dim$|window|experts|per_tok|rank|position|patch|channels|embd|vocab|width|stride|mel|rate$|frames|length|d_model|ffn|inter|model_type|queries",
                    k.rpartition(".")[2],
                ):
                    d[k] = v
        elif isinstance(v, str):
            if k.rpartition(".")[2] in (
                "hidden_act",
                "model_type",
                "hidden_activation",
                "feed_forward_proj",
                "activation_function",
                "hybrid_override_pattern",
            ):
                d[k] = v
    follows = {k: [[num(c), [[a, b] for a, b in m]] for c, m in v] for k, v in r["follows"].items() if k in base}
    line = {
        "type": t,
        "task": r["task"],
        "class": r["class"],
        "subtypes": r.get("subtypes", {}),
        "names": {k: v for k, v in r.get("map", {}).items() if isinstance(v, str)},
        "defaults": d,
        "follows": follows,
        "terms": terms,
    }
    if r.get("work"):
        line["work"] = r["work"]
    return json.dumps(line, separators=(",", ":"), ensure_ascii=True)


def main():
    """Write the table, a line a type, sorted."""
    signal.signal(signal.SIGALRM, alarm)
    out, wanted = sys.argv[1], sys.argv[2:] or list(CONFIG_MAPPING.keys())
    lines = []
    for name in wanted:
        signal.alarm(170)
        try:
            found = record(name)
            found["work"] = (work_of(name) or {}).get("work")
            text = one_line(found)
        except TimeUp:
            text = None
        except Exception as error:
            print(name, type(error).__name__, str(error)[:100], file=sys.stderr)
            text = None
        finally:
            signal.alarm(0)
        if text:
            lines.append(text)
    with open(out, "w") as stream:
        stream.write("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
