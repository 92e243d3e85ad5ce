"""Kubernetes objects against the API's own schemas, with unknown fields refused; KEDA's against the
schema of its definition."""

from __future__ import annotations

import pytest
import yaml
from jobs import files, hostile, taken

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")


@pytest.mark.parametrize("name", taken("kubernetes"))
def test_objects_are_valid(name: str) -> None:
    for maker in (files, hostile):
        objects = list(yaml.safe_load_all(maker("kubernetes", name)["objects.yaml"]))
        assert {found["kind"] for found in objects} & {"Deployment", "Job"}
        for found in objects:
            kubernetes_validate.validate(found, "1.31", strict=True)


def test_the_check_would_find_a_wrong_field() -> None:
    first = next(yaml.safe_load_all(files("kubernetes", "chat-8b")["objects.yaml"]))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**first, "spec": {**first["spec"], "replicaz": 2}}, "1.31", strict=True)


@pytest.mark.parametrize("name", taken("kubernetes"))
def test_nothing_is_open_and_every_pod_is_limited(name: str) -> None:
    text = files("kubernetes", name)["objects.yaml"]
    assert "0.0.0.0/0" not in text
    assert "LoadBalancer" not in text
    for found in yaml.safe_load_all(text):
        pod = found.get("spec", {}).get("template", {}).get("spec") if found["kind"] in ("Deployment", "Job") else None
        if pod:
            assert pod["containers"][0]["resources"]["limits"]["memory"]
            assert pod["automountServiceAccountToken"] is False
