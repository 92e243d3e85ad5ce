"""Start one command on every server of a Ray cluster and wait for all. Usage: python run_on_nodes.py nodes.json"""

import json
import subprocess
import sys
from pathlib import Path

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=1, max_retries=0)
def address():
    return ray.util.get_node_ip_address()


@ray.remote(num_cpus=1, max_retries=0)
def run(words, setup, folder):
    for line in setup:
        subprocess.run(["sh", "-c", line], check=True)  # noqa: S603, S607  lines of the plan's own file
    return subprocess.run(words, cwd=folder, check=False).returncode  # noqa: S603


def filled(words, rank, nodes, head):
    marks = {"{node_rank}": str(rank), "{num_nodes}": str(nodes), "{head_address}": head}
    for mark, text in marks.items():
        words = [word.replace(mark, text) for word in words]
    return words


def main():
    path = Path(sys.argv[1]).resolve()
    plan = json.loads(path.read_text())
    nodes, cards = plan["nodes"], plan["gpus_per_node"]
    ray.init(address="auto")
    # One place a server, with all of its cards: the plan's processes are started by the command itself.
    bundle = {"CPU": 1, **({"GPU": cards} if cards else {})}
    group = placement_group([bundle] * nodes, strategy="STRICT_SPREAD")
    ray.get(group.ready(), timeout=3600)
    places = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank) for rank in range(nodes)]
    head = ray.get(address.options(scheduling_strategy=places[0]).remote())
    started = [
        run.options(scheduling_strategy=place, num_gpus=cards).remote(
            filled(plan["command"], rank, nodes, head), plan["setup"], str(path.parent)
        )
        for rank, place in enumerate(places)
    ]
    while started:  # the first failure ends the job, and with it the cluster; the others would wait for the lost node
        done, started = ray.wait(started)
        code = ray.get(done[0])
        if code:
            sys.exit(code)


if __name__ == "__main__":
    main()
