"""Stages of the data path by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import loading


def a(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_stall_share_by_hand() -> None:
    """Loading of 5 s beside computing of 4 s: one second in five is waited."""
    assert loading.stall_share(loading_s=a(5, 3, 0), compute_s=a(4, 4, 0)) == pytest.approx([0.2, 0, 0])


def test_jpeg_by_hand() -> None:
    """0.2 megapixels at 6 ns and 100 kB at 40 ns on a core of speed 4: (1.2 + 4) / 4 ms."""
    found = loading.jpeg_decode_s(a(2e5), file_bytes=a(1e5), s_per_pixel=6e-9, s_per_byte=4e-8, core_speed=a(4))
    assert found == pytest.approx([1.3e-3])


@pytest.mark.parametrize(("workers", "cores"), [(1, 1), (4, 4), (6, 4.5), (8, 5), (100, 5)])
def test_second_threads_add_a_quarter(workers: float, cores: float) -> None:
    """Eight hardware threads on four cores."""
    found = loading.usable_cores(a(workers), vcpus=a(8), threads_per_core=a(2), sibling_share=0.25)
    assert found == pytest.approx([cores])


def test_unknown_vcpus_give_every_worker_a_core() -> None:
    assert loading.usable_cores(a(12), vcpus=a(0), threads_per_core=a(2), sibling_share=0.25) == pytest.approx([12])


def test_stages_together_are_slower_than_the_slowest() -> None:
    """Two equal stages of 100/s with exponent 2: 100 / sqrt(2); a stage without
    limit changes nothing."""
    assert loading.slowest(a(100), a(100), a(np.inf), sharpness=2.0) == pytest.approx([70.7107], rel=1e-5)
    assert loading.slowest(a(100), a(1e6), sharpness=8.0) == pytest.approx([100.0])


def test_volumes_grow_with_size_up_to_their_most_and_the_link() -> None:
    """120 MB/s and 0.5 MB/s per GB, 350 at most: 170 at 100 GB, 350 at 1 TB; a link of 300
    MB/s holds it there."""
    found = loading.volume_bytes_per_s(a(1e11, 1e12, 1e12), base=a(1.2e8), per_byte=a(5e-4), most=a(3.5e8), link=a(np.inf, np.inf, 3e8))
    assert found == pytest.approx([1.7e8, 3.5e8, 3e8])


def test_cached_share() -> None:
    assert loading.cached_share(a(4e11, 1e11, 0), free_memory_bytes=a(1e11, 4e11, 0)) == pytest.approx([0.25, 1, 1])


def test_reading_is_bound_by_bytes_or_by_requests() -> None:
    """1 GB at 125 MB/s takes 8 s; in 100,000 reads at 3,000/s it takes 33.3 s."""
    found = loading.read_s(a(1e9, 1e9), requests=a(10, 1e5), bytes_per_s=a(1.25e8, 1.25e8), requests_per_s=a(3000, 3000))
    assert found == pytest.approx([8, 100 / 3])


def test_epochs_take_the_longer_of_computing_and_loading() -> None:
    """Three epochs of 10 s each: the first waits for 25 s of loading, the others for none."""
    both = {"first_loading_s": a(25), "later_loading_s": a(4)}
    assert loading.epochs_s(a(30), epochs=a(3), **both) == pytest.approx([45])
    assert loading.epochs_s(a(5), epochs=a(0.5), **both) == pytest.approx([12.5])


def test_more_computing_never_takes_less_time() -> None:
    compute = np.linspace(0, 100, 50)
    found = loading.epochs_s(compute, epochs=a(3), first_loading_s=a(25), later_loading_s=a(4))
    assert (np.diff(found) >= 0).all()
