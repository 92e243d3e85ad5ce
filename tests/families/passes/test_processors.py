"""A CPU server of the catalog is the processor that it has, with as many cores as it rents out."""

from __future__ import annotations

from rightfit.families.passes.forward import _device_of
from rightfit.market import open_catalog
from rightfit.search.service.stacks import cpu_machine


def test_every_server_counts_all_of_its_cores() -> None:
    servers = open_catalog().all_offers().servers
    listed = [row for row in range(len(servers)) if not servers.accelerator_name[row]]
    machines = {servers.instance_type[row]: one for row in listed if (one := cpu_machine(servers, row)) is not None}
    assert machines["c4a-standard-16"].card.num_sms == 16  # Arm servers of Google: a core each virtual CPU
    assert {name: _device_of(one).units for name, one in machines.items()} == {name: one.card.num_sms for name, one in machines.items()}
