"""A CPU server of the catalog is the processor that it has, with as many cores as it rents out."""

from __future__ import annotations

from rightfit import facts
from rightfit.catalog import open_catalog
from rightfit.estimate.forward_devices import forward_device
from rightfit.search.service.cpu_servers import cpu_machine


def test_every_server_counts_all_of_its_cores() -> None:
    servers = open_catalog().all_offers().servers
    some = next(iter(facts.accelerators().values()))
    machines = [cpu_machine(servers, row, some) for row in range(len(servers)) if not servers.accelerator_name[row]]
    cores = {f"{one.device} ({one.card.num_sms} cores)": float(one.card.num_sms) for one in machines if one is not None}
    assert any("c4a-standard-16" in words for words in cores)  # Arm servers of Google: a core each virtual CPU, which the name counts too
    read = {words: forward_device(words) for words in cores}
    assert {words: device.units for words, device in read.items() if device is not None} == cores
