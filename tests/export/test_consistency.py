"""Files of one plan agree with each other and with the plan, over all typical
plans and all targets."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import shlex
from typing import Any

import pytest
import yaml
from typical_plans import FURTHER, OTHER_KINDS, WISHES, plan_values

import rightfit
from rightfit import facts
from rightfit.errors import InputError
from rightfit.exports import ExportSettings, Files, Job, all_targets, files_of, find_target, job_of, plan_document, skypilot_words
from rightfit.exports.buckets import BUCKET, CLIENTS, scheme_of
from rightfit.exports.job import SERVING_TASKS
from rightfit.exports.kubernetes_words import CLUSTER_SELLERS, EFA, placement
from rightfit.exports.mirrors import mirrored_image, mirrors_of
from rightfit.exports.model_words import architecture, context_tokens, longest_tokens
from rightfit.exports.recipes import OPTIONAL_SECRETS, brings, has_recipe, launcher_of, recipe_of
from rightfit.exports.stack import installs, stack_of, stack_problem
from rightfit.exports.targets.kubernetes import updated
from rightfit.facts.devices import builds
from rightfit.facts.engine_releases import every_image

PLANS = (*WISHES, *FURTHER, *OTHER_KINDS)


def job(name: str, rank: int = 1, **settings: object) -> Job:
    return job_of(plan_document(plan_values(name)), rank=rank, settings=ExportSettings(**settings))  # type: ignore[arg-type]


@functools.cache
def bundle(name: str) -> Files:
    return files_of(job(name), "all")


def moved(name: str, **option: Any) -> Job:
    """The job of a plan whose option differs."""
    found = job(name)
    return dataclasses.replace(found, option=found.option.model_copy(update=option))


def documents(files: Files) -> list[tuple[str, Any]]:
    """Every YAML document of every file."""
    return [(path, document) for path, text in files.items() if path.endswith((".yaml", ".yml")) for document in yaml.safe_load_all(text)]


def pods(files: Files) -> list[dict[str, Any]]:
    """Every pod template, however deep."""
    found: list[dict[str, Any]] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            if "containers" in value.get("spec", {}) if isinstance(value.get("spec"), dict) else False:
                found.append(value)
            for item in value.values():
                look(item)
        elif isinstance(value, list):
            for item in value:
                look(item)

    for _, document in documents(files):
        look(document)
    return found


@pytest.mark.parametrize("name", PLANS)
def test_the_readme_names_what_the_bundle_has_and_says_all_that_it_needs(name: str) -> None:
    files = bundle(name)
    readme, folders = files["README.md"], {path.split("/")[0] for path in files}
    blocks = re.findall(r"```(?:sh|bash)\n(.*?)```", readme, re.DOTALL)
    for block in blocks:
        for folder in re.findall(r"^cd ([\w-]+)$", block, re.MULTILINE):
            assert folder in folders
    for target in {path.split("/")[0] for path in files if "/" in path}:
        if has_recipe(target):
            recipe = recipe_of(job(name), target)
            known = {variable for variable, _ in recipe.needs} | {"AWS_ENDPOINT_URL", "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "id"}
            lines = "\n".join((*recipe.before, *recipe.start, *recipe.result, *recipe.end))
            set_here = set(re.findall(r"export (\w+)=", lines))
            assert set(re.findall(r"\$\{?(\w+)", lines)) - known - set_here == set(), f"{target} uses variables that nobody is told to set"
            for path in re.findall(r"(?<![\w/-])([\w-]+(?:\.[\w-]+)?\.(?:ya?ml|sh|sbatch))\b", lines):
                assert f"{target}/{path}" in files or f"kubernetes/{path}" in files, f"{target}: {path} is not there"
            said = readme.partition(f"`{target}/`")[2] or readme
            for variable in known - {"AWS_ENDPOINT_URL", "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "id"}:
                assert f"`{variable}` in the environment" in said or f"`{variable}` in the environment" in readme
            for program, install in CLIENTS.values():
                if not job(name).is_service and any(line.startswith(f"{program} ") for line in (*recipe.before, *recipe.result)):
                    assert program == recipe.program[0] or f"`{program}`, which copies to the bucket: `{install}`" in said, (
                        target,
                        program,
                    )
            assert recipe.end, f"{target} does not say how it is ended"
            assert job(name).is_service or recipe.kept, f"{target} keeps nothing of what the job makes"


@pytest.mark.parametrize("name", PLANS)
def test_secrets_of_the_files_are_those_of_the_readme(name: str) -> None:
    """What a launcher's files ask for is what its recipe puts there: HF_TOKEN, the key of a
    service, the keys of the bucket. The front of Dynamo asks for no key of its own, and none is
    written for it."""
    if stack_problem(job(name)):
        return
    written = {path.split("/")[0] for path in bundle(name) if "/" in path}
    for target in filter(has_recipe, written):
        needs = {variable for variable, _ in recipe_of(job(name), target).needs}
        unasked = set(stack_of(job(name)).secrets) - needs
        text = "".join(content for path, content in bundle(name).items() if path.startswith(f"{target}/"))
        assert not [secret for secret in unasked if target != "dynamo" or secret in text], target
    if "skypilot" in written:
        task = yaml.safe_load(bundle(name)["skypilot/task.yaml"])
        asked = set(task.get("secrets", {})) | {variable for variable, value in task.get("envs", {}).items() if value is None}
        recipe = recipe_of(job(name), "skypilot")
        derived = set(re.findall(r"(?<!optimum-cli )\bexport (\w+)", "\n".join(recipe.before)))
        assert asked - derived == {variable for variable, _ in recipe.needs}
        assert derived <= {skypilot_words.ROOT, BUCKET}


def mount_problems(task: dict[str, Any]) -> list[str]:
    """What SkyPilot 0.14 refuses, or silently drops, of the buckets that a task mounts
    (tests/exporters/test_skypilot.py asks SkyPilot itself): it mounts whole buckets that are there,
    by their address. By `name` without `source` it takes none but what it made itself; a folder
    behind the bucket it refuses, and of Azure it mounts the container all the same."""
    found = []
    for path, store in task.get("file_mounts", {}).items():
        if store.get("mode") not in ("MOUNT", "MOUNT_CACHED"):
            found.append(f"{path} is not mounted: {store}")
        elif "name" in store or not re.fullmatch(
            r"(s3|gs)://[^/]+|https://[^/]+/[^/]+|\$\{RIGHTFIT_BUCKET_ROOT\}", store.get("source", "")
        ):
            found.append(f"{path} is not a whole bucket that is there: {store}")
        if f"{path}/" not in task["setup"] or "/checkpoints" not in task["setup"]:
            found.append(f"the set-up leads /checkpoints not to {path}")
    return found


def test_the_rule_of_mounts_finds_what_skypilot_refuses() -> None:
    setup = "ln -s /bucket/a /checkpoints"
    refused = (
        {"name": "mine"},
        {"source": "s3://mine/runs"},
        {"source": "https://a.blob.core.windows.net/box/runs"},
        {"source": "${RIGHTFIT_BUCKET}/runs"},
    )
    for words in refused:
        assert len(mount_problems({"setup": setup, "file_mounts": {"/bucket": {**words, "mode": "MOUNT_CACHED"}}})) == 1, words
    whole = {"/bucket": {"source": "s3://mine", "mode": "MOUNT_CACHED"}}
    assert (mount_problems({"setup": setup, "file_mounts": whole}), len(mount_problems({"setup": "", "file_mounts": whole}))) == ([], 1)


@pytest.mark.parametrize("name", PLANS)
def test_every_skypilot_task_mounts_its_bucket_as_skypilot_does(name: str) -> None:
    """No bucket, one of each cloud's, alone and with a folder: what is mounted is the bucket, where
    the README copies to is the plan's folder in it."""
    target = find_target("skypilot")
    for bucket in ("", "s3://mine", "gs://mine/runs", "https://mine.blob.core.windows.net/box/runs/of/us"):
        found = job(name, bucket=bucket)
        if target.problem(found):
            continue
        task, recipe = yaml.safe_load(target.files(found)["task.yaml"]), recipe_of(found, "skypilot")
        assert mount_problems(task) == []
        assert bool(task.get("file_mounts")) == (not found.is_service and "mount" not in skypilot_words.lacks(found.option.provider))
        if task.get("file_mounts") and bucket:
            [store] = task["file_mounts"].values()
            assert recipe.kept == f"{bucket}/{found.name}-{found.plan_id}"
            assert recipe.kept.startswith(store["source"] + "/")
            assert f"kept={skypilot_words.MOUNTED}/{recipe.kept.removeprefix(store['source'] + '/')}" in task["setup"].splitlines()
        elif task.get("file_mounts") and skypilot_words.bucket_is_made(
            found
        ):  # before the data are brought, and before SkyPilot looks for it
            assert recipe.before[0].startswith(f"export {BUCKET}=")
            assert "sh bucket.sh" in recipe.before[0]
            assert re.search(r'\b(mb|create) "(s3|gs)://\$name"', target.files(found)["bucket.sh"])


@pytest.mark.parametrize("provider", sorted(skypilot_words.CLOUDS))
def test_skypilot_is_installed_with_every_cloud_that_a_job_needs(provider: str) -> None:
    """The server's, that of the bucket which it mounts, and one that can have the controller of
    services and managed jobs; the README and the task say so."""
    cloud = skypilot_words.CLOUDS[provider]
    for name, purchase in (("lora-8b-aws", "on-demand"), ("lora-8b-aws", "spot"), ("chat-8b-aws", "on-demand")):
        found = moved(name, provider=provider, purchase=purchase)
        needed = skypilot_words.clouds(found)
        assert needed[0] == cloud
        if skypilot_words.mounts(found):
            assert {"s3": "aws", "gs": "gcp", "https": "azure"}[scheme_of(found)] in needed
        if found.is_service or skypilot_words.managed(found):
            assert set(needed) - set(skypilot_words.NO_CONTROLLER)
            assert bool(skypilot_words.controller_words(found)) == (cloud in skypilot_words.NO_CONTROLLER)
        assert skypilot_words.install(found).startswith(f'pip install "skypilot[{",".join(needed)}')
        if not found.is_service and (skypilot_words.copies(found) or scheme_of(found) == "s3"):
            assert "aws" in skypilot_words.install(found)  # the program that copies to S3
        if not find_target("skypilot").problem(found):
            recipe = recipe_of(found, "skypilot")
            assert f"sky check {' '.join(needed)}" in recipe.program[1]
            told = skypilot_words.controller_words(found)
            assert (told in recipe.program[1], told in find_target("skypilot").files(found)["task.yaml"]) == (True, True)


def test_a_run_on_lambda_with_s3_and_a_service_there_name_amazon_too() -> None:
    for name, purchase in (("lora-8b-aws", "on-demand"), ("chat-8b-aws", "on-demand")):
        assert skypilot_words.install(moved(name, provider="lambda", purchase=purchase)) == 'pip install "skypilot[lambda,aws]==0.14.1"'
    assert (
        skypilot_words.install(moved("lora-8b-aws", provider="digitalocean", purchase="on-demand"))
        == 'pip install "skypilot[do,aws]==0.14.1"'
    )


@pytest.mark.parametrize(
    ("name", "bucket"),
    [
        ("lora-8b-aws", "s3://Mine/runs"),
        ("lora-8b-aws", "s3://mine/../theirs"),
        ("lora-8b-aws", "s3://mine//runs"),
        ("full-8b-gcp", "gs://google-runs"),
        ("bert-azure", "https://mine.blob.core.windows.net"),
        ("bert-azure", "https://example.com/box"),
    ],
)
def test_a_bucket_that_skypilot_cannot_mount_is_refused_at_the_export(name: str, bucket: str) -> None:
    with pytest.raises(InputError, match=f"SkyPilot cannot mount {re.escape(bucket)}: it takes s3://NAME"):
        find_target("skypilot").files(job(name, bucket=bucket))


@pytest.mark.parametrize("name", PLANS)
def test_every_bundle_that_starts_something_has_a_check(name: str) -> None:
    files = bundle(name)
    launcher = launcher_of(job(name), {path.split("/")[0] for path in files})
    assert ("check.sh" in files) == (not stack_problem(job(name)))
    if launcher:
        assert recipe_of(job(name), launcher).program[0] in files["check.sh"]
        for variable, _ in recipe_of(job(name), launcher).needs:
            assert variable in files["check.sh"] or variable in OPTIONAL_SECRETS


def test_scaler_network_policy_and_metrics_meet() -> None:
    found = job("chat-8b")
    files = {target: find_target(target).files(found) for target in ("keda", "kubernetes")}
    [scaler] = [document for _, document in documents(files["keda"])]
    objects = {document["kind"]: document for _, document in documents(files["kubernetes"])}
    [trigger] = scaler["spec"]["triggers"]
    wanted = dict(re.findall(r'(\w+)="([^"]+)"', trigger["metadata"]["query"]))
    pod = objects["Deployment"]["spec"]["template"]["metadata"]
    # Prometheus' chart turns each sign of a pod's label that is no letter or digit into "_".
    series = {re.sub(r"\W", "_", label): value for label, value in pod["labels"].items()}
    assert wanted.items() <= series.items()
    assert pod["annotations"]["prometheus.io/port"] == str(stack_of(found).port)
    namespace = re.match(r"http://[\w-]+\.([\w-]+)\.svc", trigger["metadata"]["serverAddress"])
    assert namespace is not None
    [rule] = objects["NetworkPolicy"]["spec"]["ingress"]
    assert {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace[1]}}} in rule["from"]
    assert [port["port"] for port in rule["ports"]] == [stack_of(found).port]
    assert scaler["spec"]["scaleTargetRef"]["name"] == objects["Deployment"]["metadata"]["name"]


@pytest.mark.parametrize("name", PLANS)
def test_names_used_in_objects_are_made_in_them(name: str) -> None:
    """Volumes, config maps and claims that pods use are objects of the same files."""
    for target in ("kubernetes", "ray", "kubeflow-trainjob"):
        if all_targets()[target].problem(job(name)):
            continue
        files = find_target(target).files(job(name))
        made = {(document["kind"], document["metadata"]["name"]) for _, document in documents(files)}
        for pod in pods(files):
            volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
            for volume in pod["spec"].get("volumes", []):
                for kind, key, part in (
                    ("ConfigMap", "configMap", "name"),
                    ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
                ):
                    assert key not in volume or (kind, volume[key][part]) in made
            for container in pod["spec"]["containers"]:
                assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes


def test_the_network_of_the_plan_is_turned_on() -> None:
    """A plan whose speed on several servers counts on a fast network asks for it wherever several
    servers are started."""
    found = job("full-70b")
    assert (found.num_nodes > 1, found.option.facts["rdma"]) == (True, "efa")
    task = yaml.safe_load(find_target("skypilot").files(found)["task.yaml"])
    assert task["resources"]["network_tier"] == "best"
    assert yaml.safe_load(find_target("dstack").files(found)["fleet.dstack.yml"])["placement"] == "cluster"
    for target in ("kubernetes", "kubeflow-trainjob", "ray"):
        main = [
            container
            for pod in pods(find_target(target).files(found))
            for container in pod["spec"]["containers"]
            if "nvidia.com/gpu" in str(container)
        ]
        assert main
        assert all(container["resources"]["limits"][EFA] == "32" for container in main), target
    alone = job("lora-8b-aws")
    assert "network_tier" not in find_target("skypilot").files(alone)["task.yaml"]
    assert EFA not in find_target("kubernetes").files(alone)["objects.yaml"]


def values_of(document: Any, key: str) -> list[str]:
    """Every text that stands under a key of a document."""
    if isinstance(document, dict):
        here = [document[key]] if isinstance(document.get(key), str) else []
        return here + [found for value in document.values() for found in values_of(value, key)]
    return [found for item in document for found in values_of(item, key)] if isinstance(document, list) else []


@pytest.mark.parametrize("name", PLANS)
def test_servers_of_a_country_with_mirrors_use_them(name: str) -> None:
    there = moved(name, facts={**job(name).option.facts, "country": "CN"})
    if stack_problem(there):
        return
    assert mirrors_of(there)["environment"].items() <= stack_of(there).environment.items()
    assert stack_of(there).image.startswith("m.daocloud.io/")
    assert re.match(r"m\.daocloud\.io/[\w.-]+\.\w+/[\w./-]+:", stack_of(there).image), stack_of(there).image  # registry, path, tag
    assert bool(mirrors_of(job(name))) == (job(name).option.facts.get("country") == "CN")
    taken = [target for target in all_targets() if not all_targets()[target].problem(there)]
    known = sorted({*every_image(), *(build.image for build in builds())})
    abroad = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, known))})(?![\w.-])")
    for target, path, text in [(one, path, text) for one in taken for path, text in find_target(one).files(there).items()]:
        assert not abroad.findall(text), (target, path)
        if path.endswith((".yaml", ".yml")):
            found = [image for document in yaml.safe_load_all(text) for image in values_of(document, "image")]
            assert all(mirrored_image(image, there) == image for image in found), (target, path)


def test_server_types_pick_nodes_only_where_a_seller_has_clusters() -> None:
    assert "node.kubernetes.io/instance-type" in find_target("kubernetes").files(job("lora-8b-aws"))["objects.yaml"]
    assert job("qlora-8b").option.provider not in CLUSTER_SELLERS
    assert "node.kubernetes.io/instance-type" not in find_target("kubernetes").files(job("qlora-8b"))["objects.yaml"]


@pytest.mark.parametrize("name", ["chat-8b", "chat-70b-aws", "bert-service-azure"])
def test_a_new_pod_waits_for_no_card_that_nobody_rents(name: str) -> None:
    update = updated(job(name))
    assert update["maxSurge"] + update["maxUnavailable"] == 1
    assert (update["maxSurge"] == 0) == bool(job(name).gpus_per_node)


@pytest.mark.parametrize("provider", ["crusoe", "nebius", "lambda", "verda"])
def test_a_server_that_no_cluster_labels_so_picks_no_node(provider: str) -> None:
    assert "nodeSelector" not in placement(moved("lora-8b-aws", provider=provider))


@pytest.mark.parametrize("name", [name for name in PLANS if (WISHES | FURTHER | OTHER_KINDS)[name].get("task") in SERVING_TASKS])
def test_requests_longer_than_usual_are_taken_within_the_cache(name: str) -> None:
    found = job(name)
    usual, longest, batch = context_tokens(found), longest_tokens(found), found.option.layout.max_batch
    if not usual:
        assert longest == 0
        return
    assert longest >= usual
    assert longest <= max(batch * usual, usual + 16)  # what the plan's cache holds
    known = architecture(found)
    assert known is None or longest <= max(usual, known.max_position)
    if batch >= 8 and (known is None or known.max_position > 4 * usual):
        assert longest >= 4 * usual


def test_a_size_is_no_model() -> None:
    plan = rightfit.plan("7B", method="lora", data="5Mtok", cloud="aws", top=1)
    found = job_of(plan_document(json.loads(plan.to_json())))
    for target in ("trl", "skypilot", "kubernetes"):
        with pytest.raises(InputError, match="is for a size, 7B"):
            find_target(target).files(found)


def test_the_model_that_onnx_runtime_serves_is_made_and_goes_along() -> None:
    found = job("bert-service-azure")
    assert "optimum-cli export onnx --model" in "\n".join(recipe_of(found, "skypilot").before)
    assert yaml.safe_load(find_target("skypilot").files(found)["task.yaml"])["workdir"] == "."
    run = yaml.safe_load(find_target("dstack").files(found)["run.dstack.yml"])
    assert "model.onnx:/job/model.onnx" in run["files"]


def test_terraform_is_that_of_the_plan_s_cloud() -> None:
    assert files_of(job("lora-8b-aws"), "terraform") == find_target("terraform-aws").files(job("lora-8b-aws"))
    with pytest.raises(InputError, match="no Terraform is written for verda; there is"):
        files_of(job("qlora-8b"), "Terraform")


@pytest.mark.parametrize("name", [*WISHES, *FURTHER])
def test_services_that_everyone_can_reach_ask_for_a_key_and_for_one_only(name: str) -> None:
    found = job(name)
    if not found.is_service:
        return
    for target in ("skypilot", "dstack"):
        if all_targets()[target].problem(found):
            continue
        keys = [secret for secret in stack_of(found).secrets if secret != "HF_TOKEN"]
        gate = target == "dstack" and yaml.safe_load(find_target("dstack").files(found)["run.dstack.yml"])["auth"]
        assert len(keys) + bool(gate) == 1, target


@pytest.mark.parametrize("name", PLANS)
def test_data_lie_where_the_job_reads_them(name: str) -> None:
    """No launcher leaves the job with a data set that nobody brings: what the settings of the
    trainer name is what the recipe fills."""
    found = job(name)
    if found.is_service or stack_problem(found):
        return
    text = stack_of(found).files.get("train.json", "{}")
    assert json.loads(text).get("data", "/checkpoints/data") == "/checkpoints/data"
    for target in {path.split("/")[0] for path in bundle(name) if "/" in path}:
        if has_recipe(target):
            before = "\n".join(recipe_of(found, target).before)
            assert re.search(r"\.\./data/? |data\b.*RIGHTFIT_CHECKPOINTS|kubectl cp \.\./data", before), target
            assert shlex.split(before.replace("\n", " ; "))  # whole quotes
            for folder in brings(found):  # a model that scores as well as the data
                assert f"../{folder}" in before, target
                assert f"the folder `{folder}/` beside this file" in bundle(name)["README.md"]
                assert f"put {brings(found)[folder]} into the folder {folder}" in bundle(name)["check.sh"]


def test_a_table_is_scored_by_a_model_that_the_user_brings() -> None:
    assert brings(job("xgboost-score-aws"))["model"] == "the model that scores, model.ubj"
    assert "model" not in brings(job("xgboost-train-aws"))


IMAGES_WITH_PIP = ("pytorch/pytorch:", "rocm/pytorch:", "python:", "nvcr.io/nvidia/pytorch:", "vllm/vllm-openai:", "rocm/vllm:")


@pytest.mark.parametrize("name", PLANS)
def test_what_is_asked_of_an_image_is_in_it(name: str) -> None:
    """Packages are added by pip where the image has one; the health of a service is asked with curl
    in the one image that has no Python."""
    if stack_problem(job(name)):
        return
    stack, files = stack_of(job(name)), bundle(name)
    image = stack.image.removeprefix(str(mirrors_of(job(name)).get("image", ""))).removeprefix("docker.io/").removeprefix("library/")
    assert not installs(stack) or image.startswith(IMAGES_WITH_PIP), image
    asked = [line for line in files.get("dockerfile/Dockerfile", "").splitlines() if line.startswith("HEALTHCHECK")]
    assert bool(asked) == (stack.port is not None and "dockerfile/Dockerfile" in files)
    program = "curl" if stack.command[0] == "llama-server" else "python3"
    for line in asked:
        words = json.loads(line.partition(" CMD ")[2])
        assert words[0] == program
        assert f"127.0.0.1:{stack.port}{stack.health_path}" in words[-1]
    if "docker-compose/compose.yaml" in files:
        assert yaml.safe_load(files["docker-compose/compose.yaml"])["services"]["engine"]["healthcheck"]["test"][:2] == ["CMD", program]


@pytest.mark.parametrize("name", PLANS)
def test_every_pod_runs_under_the_runtime_s_list_of_system_calls(name: str) -> None:
    found = pods(bundle(name))
    assert all(pod["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}} for pod in found)
    assert found or "kubernetes/objects.yaml" not in bundle(name)


@pytest.mark.parametrize("name", PLANS)
def test_buckets_that_are_made_keep_what_was_overwritten_for_a_while(name: str) -> None:
    made = [text for path, text in bundle(name).items() if path.endswith(("main.tf", "template.yaml")) and "checkpoints" in text.casefold()]
    if job(name).is_service:
        return
    for text in made:
        assert re.search(r"versioning|delete_retention_policy", text, re.IGNORECASE)
        assert re.search(r"(?i)(days|days_since_noncurrent_time|noncurrent_?days|non_current_days)\W+30\b", text)


def test_a_server_of_google_starts_what_is_signed() -> None:
    made = [text for name in PLANS for path, text in bundle(name).items() if path.endswith("main.tf") and "google_compute_instance" in text]
    assert made
    for text in made:
        assert re.search(r"shielded_instance_config \{\s+enable_vtpm\s+= true\s+enable_integrity_monitoring = true", text), text[:400]


#: Cards of each kind that DCGM does, or does not, count the engines of, as NVIDIA says
#: (dcgm-exporter issues 395 and 404, DCGM issue 234).
COUNTED = ("V100-SXM-16GB", "T4", "A100-SXM-80GB", "L4", "H100-SXM-80GB", "B200-SXM-180GB", "RTX-5090")
NOT_COUNTED = ("P100-PCIe-16GB", "M60", "K80", "RTX-3090", "RTX-4090", "RTX-2080-Ti")


def test_profiling_counters_are_asked_of_cards_that_have_them() -> None:
    nvidia = [name for name, card in facts.accelerators().items() if card.vendor == "NVIDIA"]
    assert {*COUNTED, *NOT_COUNTED} <= {*nvidia}
    found = job("qlora-8b")
    for name in nvidia:
        here = dataclasses.replace(
            found, option=found.option.model_copy(update={"accelerator": found.option.accelerator.model_copy(update={"name": name})})
        )
        texts = [text for target in ("prometheus", "grafana") for text in files_of(here, target).values()]
        counted = ["DCGM_FI_PROF_" in text for text in texts]
        busy = ["DCGM_FI_DEV_GPU_UTIL" in text for text in texts]
        assert any(counted) != any(busy), f"{name}: busy by one counter, in alerts and dashboard alike"
        if name in (*COUNTED, *NOT_COUNTED):
            assert any(counted) == (name in COUNTED), name


COMMIT = "8c22764a7e3675c50d4c7c9a4edb474456022b16"


@pytest.mark.parametrize("name", PLANS)
def test_the_commit_of_a_model_reaches_whatever_fetches_it_or_is_refused(name: str) -> None:
    pinned = job(name, revision=COMMIT)
    for target in all_targets().values():
        if (
            target.group not in ("launch", "kubernetes", "training", "serving")
            or target.problem(job(name))
            or target.name in ("nginx", "keda", "karpenter")
        ):
            continue
        if problem := target.problem(pinned):
            assert str(problem).endswith("leave out --revision"), target.name
        else:
            started = (
                (*stack_of(pinned).files.values(), *stack_of(pinned).command) if target.group == "launch" else ()
            )  # files may be packed
            assert any(COMMIT in text for text in (*target.files(pinned).values(), *started)), target.name
    with pytest.raises(InputError, match="must be a commit, tag or branch"):
        job(name, revision="main; rm -rf /")


CONSTANT = re.compile(r"\[\[? [^\s$`\"']+ (?:=|==|!=|-eq|-ne|-lt|-le|-gt|-ge) [^\s$`\"']+ \]")
IDLE = re.compile(r"^\w+\(\) \{\n\s*(?::|return \d)\n\}", re.MULTILINE)


@pytest.mark.parametrize("name", PLANS)
def test_no_script_asks_what_was_known_when_it_was_written(name: str) -> None:
    """A branch between two words that both stand in the script, and a function that does nothing,
    are left out."""
    for path, text in bundle(name).items():
        assert not CONSTANT.findall(text), path
        assert not IDLE.findall(text), path


def test_questions_that_answer_themselves_are_found() -> None:
    assert CONSTANT.search("if [ yes = no ] || true; then")
    assert IDLE.search("again() {\n  return 1\n}\n")
    assert not CONSTANT.search('[ "$gone" -ge 3 ]')


@pytest.mark.parametrize("name", PLANS)
def test_what_check_says_has_no_marks_of_markdown(name: str) -> None:
    check = bundle(name).get("check.sh", "")  # there is none where nothing starts the plan
    said = re.findall(r"(?:lacks|there|unknown) '([^']*)'", check)
    assert said or not check
    assert not [words for words in said if "`" in words]
