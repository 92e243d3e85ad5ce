"""Train GraphSAGE on one large graph with sampled neighbours, as a rightfit plan says. Usage: torchrun ... train.py train.json

The data are a folder of NumPy's own files: features.npy (nodes x features), labels.npy (the class of each node, -1 where it is not known) and
edges.npy (2 x edges: from, to); train.npy may name the nodes to learn from. Features stay on the disk and in the page cache: a batch copies what
it gathers.
"""

import itertools
from pathlib import Path

import numpy as np
import run_core as core
import torch
import train_loop as loop
from torch import nn
from torch.utils.data import Dataset

plan = loop.plan
FILES = ("features.npy", "labels.npy", "edges.npy")


class Graph:
    """Who points to whom: the neighbours of node v are sources[first[v] : first[v + 1]]."""

    def __init__(self, folder):
        self.features, self.labels = (np.load(folder / name, mmap_mode="r") for name in FILES[:2])
        kept = Path(plan["output"]) / "graph"
        if not (kept / "sources.npy").exists():
            self.order(np.load(folder / FILES[2], mmap_mode="r"), kept)
        self.first, self.sources = (np.load(kept / f"{name}.npy", mmap_mode="r") for name in ("first", "sources"))

    def order(self, edges, kept):
        """The edges by where they lead, both ways: neighbours are whoever a node is joined with."""
        sources, ends = np.concatenate([edges[0], edges[1]]), np.concatenate([edges[1], edges[0]])
        kept.mkdir(parents=True, exist_ok=True)
        counts = np.bincount(ends, minlength=len(self.labels))
        np.save(kept / "first.npy", np.concatenate([[0], np.cumsum(counts)]))
        np.save(kept / "part.npy", sources[np.argsort(ends, kind="stable")])
        (kept / "part.npy").replace(kept / "sources.npy")

    def neighbours(self, nodes, count):
        """`count` neighbours of each node, drawn one by one; a node without any is its own."""
        begin, degree = self.first[nodes], self.first[nodes + 1] - self.first[nodes]
        drawn = begin[:, None] + (torch.rand(len(nodes), count).numpy() * degree[:, None]).astype(np.int64)
        found = self.sources[np.minimum(drawn, max(0, len(self.sources) - 1))]
        return np.where(degree[:, None] > 0, found, nodes[:, None])


class Nodes(Dataset):
    """Numbers of nodes."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, place):
        return int(self.numbers[place])


class Sage(nn.Module):
    """GraphSAGE with means (Hamilton et al. 2017): a layer joins what a node has with the mean of what its neighbours have."""

    def __init__(self, features, hidden, classes, layers):
        super().__init__()
        sizes = [features, *[hidden] * (layers - 1), classes]
        self.own = nn.ModuleList(nn.Linear(before, after) for before, after in itertools.pairwise(sizes))
        self.around = nn.ModuleList(nn.Linear(before, after, bias=False) for before, after in itertools.pairwise(sizes))
        self.rest = nn.Dropout(0.5)

    def forward(self, features, own, around, labels):
        found = features
        for number, (mine, theirs) in enumerate(zip(own, around, strict=True)):
            found = self.own[number](found[mine]) + self.around[number](found[theirs].mean(1))
            found = self.rest(torch.relu(found)) if number + 1 < len(self.own) else found
        return loop.Result(nn.functional.cross_entropy(found.float(), labels))


def split(numbers):
    """Nodes to learn from, and those that are held out."""
    count = min(int(len(numbers) * plan["held_out"]), core.MOST_HELD_OUT)
    if not count:
        return Nodes(numbers), None
    held = np.arange(count) * (len(numbers) // count)
    return Nodes(np.delete(numbers, held)), Nodes(numbers[held])


def main():
    loop.start()
    folder = Path(core.local(plan["data"]))
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise SystemExit(f"{plan['data']} lacks {', '.join(missing)}; see the first lines of train.py")
    graph = loop.first_alone(lambda: Graph(folder))
    known = np.load(folder / "train.npy") if (folder / "train.npy").exists() else np.flatnonzero(np.asarray(graph.labels) >= 0)
    classes = plan["classes"] or 1 + int(np.asarray(graph.labels).max())
    learnt, held = split(known)
    bare = Sage(graph.features.shape[1], plan["hidden"], classes, len(plan["neighbours"]))

    def collate(seeds):
        """From the last layer to the first: whom each node is made of, then the features of all of them."""
        nodes, own, around = np.asarray(seeds), [], []
        for count in reversed(plan["neighbours"]):
            drawn = graph.neighbours(nodes, count)
            every, place = np.unique(np.concatenate([nodes, drawn.ravel()]), return_inverse=True)
            own.insert(0, torch.from_numpy(place[: len(nodes)]))
            around.insert(0, torch.from_numpy(place[len(nodes) :].reshape(drawn.shape)))
            nodes = every
        features = torch.from_numpy(np.asarray(graph.features[nodes], np.float32))
        return {
            "features": features,
            "own": own,
            "around": around,
            "labels": torch.from_numpy(np.asarray(graph.labels)[seeds].astype(np.int64)),
        }

    def keep(folder, weights):
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(
            {"weights": weights, "hidden": plan["hidden"], "layers": len(plan["neighbours"]), "classes": classes}, folder / "model.pt"
        )

    loop.train(bare, learnt, collate, keep, held=held)


main()
