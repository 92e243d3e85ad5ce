"""Stores before which SkyPilot's own code is run: S3 by moto, and in the place of Google's and
Azure's clients, whose packages are not installed here, the few calls of them that SkyPilot makes.
Who owns a bucket decides what it answers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

STRANGER = "111111111111"
"""An account that is not ours."""


class NotFoundError(Exception):
    """In the place of google.api_core.exceptions.NotFound."""


class ForbiddenError(Exception):
    """In the place of google.api_core.exceptions.Forbidden."""


class AzureError(Exception):
    """In the place of the exceptions of azure.core."""


class Stores:
    """Buckets by their addresses, each ours or a stranger's."""

    def __init__(self) -> None:
        os.environ["MOTO_S3_ALLOW_CROSSACCOUNT_ACCESS"] = "false"
        import boto3
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        server.start()
        _, port = server.get_host_and_port()
        ours = {"endpoint_url": f"http://127.0.0.1:{port}", "aws_access_key_id": "ours", "aws_secret_access_key": "ours"}
        role = {"RoleArn": f"arn:aws:iam::{STRANGER}:role/theirs", "RoleSessionName": "theirs"}
        keys = boto3.client("sts", region_name="us-east-1", **ours).assume_role(**role)["Credentials"]
        theirs = {
            "endpoint_url": ours["endpoint_url"],
            "aws_access_key_id": keys["AccessKeyId"],
            "aws_secret_access_key": keys["SecretAccessKey"],
            "aws_session_token": keys["SessionToken"],
        }
        self.clients = {name: boto3.client("s3", region_name="us-east-1", **words) for name, words in ((False, ours), (True, theirs))}
        self.owners: dict[str, bool] = {}
        self._put_amazon(ours)
        self._put_google()
        self._put_azure()

    def make(self, address: str, *, is_strange: bool) -> None:
        """A bucket made outside SkyPilot."""
        if address.startswith("s3://"):
            self.clients[is_strange].create_bucket(Bucket=address.removeprefix("s3://"))
        self.owners[address] = is_strange

    def take(self, address: str) -> None:
        """It is gone."""
        if address.startswith("s3://"):
            self.clients[self.owners[address]].delete_bucket(Bucket=address.removeprefix("s3://"))
        del self.owners[address]

    def _put_amazon(self, account: dict[str, str]) -> None:
        """An account for S3 alone: of one for all SkyPilot would ask zones and images, which
        its own tables hold."""
        from sky import clouds
        from sky.adaptors import aws

        def of_store(make: Callable[..., Any]) -> Callable[..., Any]:
            return lambda service, **words: make(service, **words, **({**account, "check_credentials": False} if service == "s3" else {}))

        aws.client, aws.resource = of_store(aws.client), of_store(aws.resource)
        clouds.AWS.should_use_env_auth_for_s3 = classmethod(lambda _cls: True)

    def _put_google(self) -> None:
        from sky import clouds
        from sky.adaptors import gcp

        def get_bucket(name: str) -> Any:
            is_strange = self.owners.get(f"gs://{name}")
            if is_strange is None:
                raise NotFoundError(name)
            if is_strange:
                raise ForbiddenError(name)
            return SimpleNamespace(name=name)

        def nobody() -> Any:
            raise ValueError("Anonymous caller does not have storage.objects.list access")

        gcp.storage_client = lambda: SimpleNamespace(get_bucket=get_bucket)
        gcp.anonymous_storage_client = lambda: SimpleNamespace(bucket=lambda _name: SimpleNamespace(list_blobs=nobody))
        gcp.not_found_exception, gcp.forbidden_exception = lambda: NotFoundError, lambda: ForbiddenError
        clouds.GCP.get_project_id = classmethod(lambda _cls, dryrun=False: "a-project")

    def _put_azure(self) -> None:
        from sky.adaptors import azure
        from sky.data import data_utils

        def client(client_type: str, **words: Any) -> Any:
            address = words.get("container_url", "")
            private = {"public_access": None}
            return SimpleNamespace(
                exists=lambda: address in self.owners, get_container_properties=lambda: private, container_name=address.rpartition("/")[2]
            )

        def group(account: str) -> str | None:
            known = [strange for address, strange in self.owners.items() if address.startswith(f"https://{account}.")]
            return None if True in known else "a-group"

        data_utils.create_az_client = client
        azure.get_az_resource_group = group
        data_utils.get_az_storage_account_key = lambda *_words: "a-key"
        names = ("ClientAuthenticationError", "ServiceRequestError", "ResourceNotFoundError", "ResourceExistsError")
        azure.exceptions = lambda: SimpleNamespace(**dict.fromkeys(names, AzureError))
