"""The physics of one set of served rows, callable for any number of sequences: a step, a pass of prompts, a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rightfit.physics import decode, prefill
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Load, ServeColumns, ServeRates

_MOST_KNOWN = 16
_ONE = np.ones(1)


class ServingPhysics:
    """The physics of one set of rows, callable for any batch."""

    def __init__(self, model: ModelColumns, serve: ServeColumns, device: DeviceColumns, links: LinkColumns, rates: ServeRates) -> None:
        self.model, self.serve, self.device, self.links, self.rates = model, serve, device, links, rates
        self._known: dict[tuple[str, int], tuple[Array, Any]] = {}

    def _once(self, name: str, argument: Array, work: Callable[[Array], Any]) -> Any:
        """A result of an array that was asked for before: batches stay the same through the parts of one answer."""
        key = (name, id(argument))
        known = self._known.get(key)
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = (argument, work(argument))
        return known[1]

    def take(self, index: NDArray[np.intp]) -> ServingPhysics:
        """Rows `index`."""
        return ServingPhysics(*(part.take(index) for part in (self.model, self.serve, self.device, self.links, self.rates)))  # type: ignore[arg-type]

    def serving(self, serve: ServeColumns) -> ServingPhysics:
        """The same rows under other loads."""
        return ServingPhysics(self.model, serve, self.device, self.links, self.rates)

    def decode_terms(self, batch: Array) -> decode.DecodeTimes:
        """Terms of a step of `batch` sequences."""
        return cast("decode.DecodeTimes", self._once("decode_terms", batch, self._decode_terms))

    def _decode_terms(self, batch: Array) -> decode.DecodeTimes:
        context = self.serve.input_tokens + self.serve.output_tokens / 2.0
        # A cache of fixed size that a static graph reads whole.
        return decode.decode_times(
            self.model, self.serve, self.device, self.links, self.rates, batch=batch, context=np.maximum(context, 1.0)
        )

    def step_s(self, batch: Array) -> Array:
        """Time of a step of `batch` sequences."""
        return cast(
            "Array", self._once("step_s", batch, lambda own: decode.step_s(self.decode_terms(own), self.model, self.serve, self.rates))
        )

    def prompt_s(self, sequences: Array) -> Array:
        """Time of a pass of so many prompts."""
        return cast("Array", self._once("prompt_s", sequences, self._prompt_s))

    def _prompt_s(self, sequences: Array) -> Array:
        times = prefill.prefill_times(
            self.model,
            self.serve,
            self.device,
            self.links,
            self.rates,
            prompt=np.maximum(self.serve.input_tokens - self.serve.cached_tokens, 1.0),
            sequences=sequences,
            cached=self.serve.cached_tokens,
        )
        fixed = self.rates.prompt_token_s * self.serve.input_tokens * sequences
        return prefill.prefill_s(times, self.model, self.serve, self.rates) + fixed

    def shared_prompt_s(self, batch: Array) -> Array:
        """Device time of one prompt where as many are treated together as arrive in a step, up to the piece that the engine takes."""
        return cast("Array", self._once("shared_prompt_s", batch, self._shared_prompt_s))

    def room(self) -> Array:
        """Prompts that one step carries."""
        prompt = np.maximum(self.serve.input_tokens - self.serve.cached_tokens, 1.0)
        several = np.where(self.serve.chunk_tokens > 0, np.maximum(self.serve.chunk_tokens / prompt, 1.0), 1.0)
        return several * self.serve.attention_data

    def _shared_prompt_s(self, batch: Array) -> Array:
        room = self.room()
        # Prompts that come while another is treated go together in the next step.
        passes = np.maximum(self.prompt_s(_ONE) / self.step_s(batch), 1.0)
        arriving = np.where(self.serve.load == Load.OFFLINE, batch, batch / np.maximum(self.serve.output_tokens, 1.0) * passes)
        together = np.clip(arriving, 1.0, room)
        return np.asarray(self.prompt_s(together) / together)

    def request_s(self, batch: Array) -> tuple[Array, Array, Array]:
        """Time to first token without queue, time per token and time of a whole request when `batch` sequences are in flight."""
        step, prompt = self.step_s(batch), self.prompt_s(_ONE)
        serve = self.serve
        # Requests that all come at once have half of the others' prompts behind them when they begin to decode.
        burst = (serve.load == Load.OFFLINE) & (serve.requests > 0) & (serve.requests / serve.data <= batch)
        share = self.rates.interference * np.where(burst, 0.5, 1.0)
        others = share * np.maximum(batch - 1.0, 0.0) * self.shared_prompt_s(batch) / np.maximum(serve.output_tokens, 1.0)
        tpot = step + others
        ttft = self.rates.request_s + prompt
        return ttft, tpot, ttft + np.maximum(serve.output_tokens - 1.0, 0.0) * tpot
