"""Run the jobs of jobs.json on a Ray cluster, each at its start (UTC) as a gang: one placement group, one bundle a server.

    ray attach cluster.yaml; then on the head:  python run_jobs.py [--now] [--jobs jobs.json] ['COMMAND']

A job's own command, else COMMAND, is run by bash on every server of the job, with JOB, NODE_RANK, NUM_NODES and MASTER_ADDR set, and with
what PASSED_ON names where the head has it. Exits with 1 where a job failed.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

PASSED_ON = ("RIGHTFIT_BUCKET", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "HF_TOKEN")


@ray.remote(num_cpus=0)
def address():
    return ray.util.get_node_ip_address()


@ray.remote(num_cpus=0)
def run(command, variables):
    return subprocess.run(["bash", "-c", command], env={**os.environ, **variables}, check=False).returncode  # noqa: S603, S607  (the user's own command)


def run_job(job, command):
    """One job on servers of its own; the largest of its exit codes."""
    group = placement_group([job["bundle"]] * job["servers"], strategy="STRICT_SPREAD" if job["servers"] > 1 else "PACK")
    try:
        ray.get(group.ready())
        places = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank) for rank in range(job["servers"])]
        first = ray.get(address.options(scheduling_strategy=places[0]).remote())
        told = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        common = {**told, "JOB": job["name"], "NUM_NODES": str(job["servers"]), "MASTER_ADDR": first}
        gpus = job["bundle"].get("GPU", 0)
        started = [
            run.options(scheduling_strategy=place, num_gpus=gpus).remote(command, {**common, "NODE_RANK": str(rank)})
            for rank, place in enumerate(places)
        ]
        return max(abs(code) for code in ray.get(started))
    finally:
        remove_placement_group(group)


def wait_for(start):
    moment = datetime.datetime.fromisoformat(start).replace(tzinfo=datetime.UTC)
    time.sleep(max(0.0, moment.timestamp() - time.time()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", default="")
    parser.add_argument("--jobs", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "jobs.json")
    parser.add_argument("--now", action="store_true", help="do not wait for the starts")
    asked = parser.parse_args()
    jobs = json.loads(asked.jobs.read_text(encoding="utf-8"))
    if lacking := [job["name"] for job in jobs if not (job.get("command") or asked.command)]:
        parser.error(f"give a COMMAND: there is none of its own for {', '.join(lacking)}")
    ray.init(address="auto", log_to_driver=True)
    failed, threads = [], []

    def one(job):
        try:
            code = run_job(job, job.get("command") or asked.command)
        except Exception as error:
            print(f"{job['name']}: {error}", file=sys.stderr)
            code = 1
        if code:
            failed.append(job["name"])

    for job in jobs:
        if not asked.now:
            wait_for(job["start"])
        threads.append(threading.Thread(target=one, args=(job,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    print(f"{len(threads) - len(failed)} of {len(threads)} jobs done")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
