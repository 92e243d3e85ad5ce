"""Small random markets and a made-up physics with the same dependencies as the real one, cheap
enough for brute force."""

from __future__ import annotations

import dataclasses
import random

import numpy as np

from rightfit import facts
from rightfit.market import PURCHASES, OfferTable, ServerTable
from rightfit.market.offers import PRICE_KINDS
from rightfit.physics.columns import Array, Columns, DeviceColumns, LinkColumns, SetupColumns, column
from rightfit.records import dataclass
from rightfit.search.constraints import Filters
from rightfit.search.market import MarketFacts, Volume
from rightfit.search.offers import Market
from rightfit.search.risk import Spread
from rightfit.search.training.wish import Amount, TrainingRequest
from rightfit.workload import Workload

ACCELERATORS = ("A100-SXM-40GB", "T4", "L4", "H100-SXM-80GB", "V100-SXM-16GB", "A10G", "Inferentia1", "MI300X", "Trainium1")
PROVIDERS = ("aws", "gcp", "verda", "lambda")
NODE_COUNTS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class ToyCompute(Columns):
    """Seconds of one micro-batch."""

    busy_s: Array = column(0)


@dataclass(frozen=True, slots=True)
class ToyPhysics:
    """Memory and time with the shape of the real ones: recomputation saves memory and costs time,
    sharding saves memory and costs traffic."""

    parameters: float

    key = None  # nothing is kept

    def memory(self, setup: SetupColumns) -> Array:
        """State over shards, activations by recomputation, a little for peers."""
        ranks = setup.tensor * setup.pipeline
        state = self.parameters * 2.0 / np.where(setup.shard_stage >= 3, setup.shard_degree, 1.0)
        optimizer = self.parameters * 14.0 / np.where(setup.shard_stage >= 1, setup.shard_degree, 1.0)
        state, optimizer = state * (setup.offload_params < 1), optimizer * (setup.offload_optimizer < 1)
        kept = np.choose(setup.recompute.astype(np.intp), [8e5, 3e5, 5e4]) * setup.micro_batch * setup.seq_len / setup.tensor
        return (state + optimizer) / ranks + kept * np.minimum(setup.grad_accum, setup.pipeline) + 1e8 * np.minimum(setup.num_gpus, 8)

    def spared(self, device: DeviceColumns) -> Array:
        """A little on accelerators that are not from NVIDIA."""
        return 5e7 * (device.vendor != 1)

    def safety(self, setup: SetupColumns, device: DeviceColumns, *, sure: bool = False) -> Array:
        """Wider for quantised setups and for accelerators that are not from NVIDIA."""
        return 1.1 + 0.1 * (setup.shard_stage >= 3) + 0.2 * (device.vendor != 1)

    def caution(self, device: DeviceColumns) -> np.ndarray:
        """Not from NVIDIA."""
        return (device.vendor != 1).astype(np.intp)

    def time_spread(self, setup: SetupColumns, device: DeviceColumns) -> Spread:
        """As sure as can be."""
        return Spread(np.ones(setup.num_rows), np.ones(setup.num_rows))

    def capacity(self, device: DeviceColumns) -> Array:
        """Nearly all."""
        return device.memory_bytes * 0.95

    def host(self, setup: SetupColumns) -> Array:
        """A process per accelerator, and what is offloaded."""
        nodes = np.ceil(setup.num_gpus / setup.gpus_per_node)
        return 4e9 * setup.gpus_per_node + self.parameters * (16.0 * setup.offload_optimizer + 2.0 * setup.offload_params) / nodes

    def compute(self, setup: SetupColumns, device: DeviceColumns) -> ToyCompute:
        """FLOPs over peak; small micro-batches are less efficient."""
        flops = 6.0 * self.parameters * setup.micro_batch * setup.seq_len / setup.tensor
        again = 1.0 + np.choose(setup.recompute.astype(np.intp), [0.0, 0.1, 0.33])
        efficiency = 0.5 * setup.micro_batch / (setup.micro_batch + 1.0)
        return ToyCompute(busy_s=flops * again / (device.peak_flops(setup.compute_dtype) * efficiency))

    def step_s(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: Columns) -> Array:
        """Busy time over the pipeline with its bubble, traffic of gradients and tensors
        over the slower link."""
        assert isinstance(compute, ToyCompute)
        across = setup.num_gpus > setup.gpus_per_node
        bandwidth = np.where(across, np.minimum(links.intra_bandwidth, links.inter_bandwidth / setup.gpus_per_node), links.intra_bandwidth)
        tensors = (setup.tensor > 1) * setup.micro_batch * setup.seq_len * 4e3 / np.maximum(links.intra_bandwidth, 1.0)
        gradients = (setup.data > 1) * 2.0 * self.parameters / setup.tensor / np.maximum(bandwidth, 1.0)
        gathers = (setup.shard_stage >= 3) * gradients * setup.grad_accum
        host = setup.offload_optimizer * self.parameters * 1e-9 + setup.offload_params * setup.grad_accum * self.parameters * 4e-11
        micro = (compute.busy_s / setup.pipeline + tensors) * (setup.grad_accum + setup.pipeline - 1.0)
        return micro + gradients + gathers + host + 0.01

    def volume(self, wish: TrainingRequest, base: SetupColumns) -> Volume:
        """Weights in 16 bits, a training state of 14 bytes a parameter."""
        return Volume(2.0 * self.parameters, wish.amount.dataset_bytes, 14.0 * self.parameters, 2.0 * self.parameters)


def random_servers(dice: random.Random, count: int) -> ServerTable:
    """Servers with accelerators that exist, and host memory, networks and prices at random."""
    known = facts.accelerators()
    rows = []
    for number in range(count):
        name = dice.choice(ACCELERATORS)
        gpus = dice.choice((1, 1, 2, 3, 4, 6, 8))
        rows.append(
            {
                "provider": dice.choice(PROVIDERS),
                "instance_type": f"type-{number}",
                "family": "f",
                "category": "gpu",
                "vcpus": 8.0 * gpus,
                "memory_bytes": dice.choice((16e9, 64e9, 256e9, 1e12, float("nan"))),
                "accelerator_name": name,
                "num_accelerators": float(gpus),
                "accelerator_memory_bytes": known[name].memory_bytes,
                "local_nvme_bytes": dice.choice((0.0, 1e12)),
                "network_bytes_per_s": dice.choice((1.25e9, 1.25e10, 5e10)),
                "network_burst_bytes_per_s": 0.0,
                "rdma": dice.choice(("none", "efa")),
                "gpu_interconnect": dice.choice(("pcie", "nvlink", "nvswitch")),
                "cpu_model": "",
                "arch": "x86_64",
                "status": "active",
                "source": "toy",
                "note": "",
                "not_recommended": dice.choice(("", "", "", "", "retired")),
            }
        )
    columns = {}
    for field in dataclasses.fields(ServerTable):
        values = [row[field.name] for row in rows]
        columns[field.name] = np.array(values) if isinstance(values[0], float) else tuple(values)
    return ServerTable(**columns)


def random_market(dice: random.Random, *, servers: int, offers: int) -> Market:
    """A market of a few servers and offers."""
    table = random_servers(dice, servers)
    server = np.sort(np.array([dice.randrange(servers) for _ in range(offers)], dtype=np.intp))
    regions = tuple(f"{provider}-{place}" for provider in PROVIDERS for place in ("east", "west"))
    region = np.array([PROVIDERS.index(table.provider[row]) * 2 + dice.randrange(2) for row in server], dtype=np.intp)
    purchase = np.array(
        [PURCHASES.index(dice.choice(("on-demand", "on-demand", "spot", "reserved-1y", "subscription-1m"))) for _ in server]
    )
    flags = np.array([dice.random() < 0.2 for _ in server])
    table_of_offers = OfferTable(
        servers=table,
        server_index=server,
        regions=regions,
        region_providers=tuple(provider for provider in PROVIDERS for _ in range(2)),
        region_countries=tuple(("US", "DE")[place] for _ in PROVIDERS for place in range(2)),
        region_index=region,
        purchase_index=purchase.astype(np.intp),
        price_usd_per_h=np.array([round(dice.uniform(0.3, 4.0) * table.num_accelerators[row], 3) for row in server]),
        as_of_dates=("2026-01-01",),
        as_of_index=np.zeros(offers, dtype=np.intp),
        sources=("toy",),
        source_index=np.zeros(offers, dtype=np.intp),
        notes=("",),
        note_index=np.zeros(offers, dtype=np.intp),
        price_original=np.ones(offers),
        currencies=("USD",),
        currency_index=np.zeros(offers, dtype=np.intp),
        kind_index=np.where(flags, PRICE_KINDS.index("estimate"), 0),
        interruption_band=np.full(offers, -1, dtype=np.intp),
        is_estimate=flags,
        is_stale=~flags,
        is_pseudo_region=flags,
        is_quarantined=np.zeros(offers, dtype=bool),
    )
    return Market(table_of_offers, random_charges(dice, table_of_offers), {"aws": "2026-01-01"})


def random_charges(dice: random.Random, offers: OfferTable) -> MarketFacts:
    """Storage, transfer, interruption and billing at random."""
    spot = (offers.purchase_index == PURCHASES.index("spot")).astype(float)
    terms = {"reserved-1y": 365 * 86400.0, "subscription-1m": 730 * 3600.0}
    term = np.array([terms.get(PURCHASES[code], 0.0) for code in offers.purchase_index])
    step = np.array([dice.choice((1.0, 60.0, 3600.0)) for _ in range(len(offers))])
    return MarketFacts(
        storage_usd_per_gb_month=np.array([dice.choice((0.0, 0.08, 0.2)) for _ in range(len(offers))]),
        object_usd_per_gb_month=np.array([dice.choice((0.0, 0.023)) for _ in range(len(offers))]),
        storage_known=np.ones(len(offers), dtype=bool),
        egress_usd_per_gb=np.array([dice.choice((0.0, 0.09)) for _ in range(len(offers))]),
        egress_known=np.ones(len(offers), dtype=bool),
        spot_low=spot * 0.05,
        spot_high=spot * dice.choice((0.1, 0.4)),
        spot_known=spot > 0,
        minimum_s=np.maximum(term, 60.0),
        increment_s=np.where(term > 0, term, step),
    )


def random_wish(dice: random.Random) -> tuple[TrainingRequest, Filters]:
    """A fine-tuning job with random size, batch, limits and filters."""
    objective = dice.choice(("cost", "time", "balanced"))
    model = facts.model(dice.choice(("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "meta-llama/Meta-Llama-3-8B", "mistralai/Mixtral-8x7B-v0.1")))
    method = dice.choice(("full", "lora"))
    options = {"precision": dice.choice(("", "", "fp16", "bf16")), "framework": dice.choice(("", "nemo"))} | (
        {"micro_batch": 2} if dice.random() < 0.1 else {}
    )
    workload = Workload(model=model.name, task="finetune", method=method, objective=objective, **{k: v for k, v in options.items() if v})
    batch = dice.choice((2, 4, 6, 8))
    seq_len = dice.choice((512, 2048))
    tokens = dice.choice((1e6, 2e7, 3e8))
    from rightfit.physics.columns import Method

    wish = TrainingRequest(
        workload, model, Method[method.upper()], seq_len, batch, Amount(tokens, tokens * dice.choice((4.0, 4.0, 400.0, 4e4))), ()
    )

    def sometimes(value: object, *, often: float, otherwise: object) -> object:
        return value if dice.random() < often else otherwise

    wanted = Filters(
        clouds=sometimes(("aws", "gcp", "verda"), often=0.15, otherwise=()),
        regions=sometimes(("aws-east", "verda-west", "gcp-east", "lambda-east"), often=0.15, otherwise=()),
        countries=sometimes(("US",), often=0.15, otherwise=()),
        gpus=sometimes(("A100-SXM-40GB", "L4", "H100-SXM-80GB", "Trainium1"), often=0.15, otherwise=()),
        purchases=dice.choice((PURCHASES, ("on-demand", "spot"), ("on-demand",), ("reserved-1y", "subscription-1m", "spot"))),
        max_nodes=dice.choice((None, None, 1, 2)),
        deadline_s=dice.choice((None, None, 7200.0, 72000.0)),
        budget_usd=dice.choice((None, None, 50.0, 1000.0)),
        budget_per_month=dice.choice((False, True)),
    )
    return wish, wanted
