"""What the services of a rightfit plan share: the key, health, and requests that come together and are worked off together. Imported by the
service.py beside it; service.json is the plan."""

import asyncio
import contextlib
import fcntl
import hmac
import json
import os
import tempfile
from pathlib import Path

from fastapi import FastAPI, Header, HTTPException

HERE = Path(__file__).parent
PLAN = json.loads((HERE / "service.json").read_text())
KEY = os.environ["RIGHTFIT_API_KEY"]
MOST_WAITING = 16 * PLAN["max_batch"]


_held = []  # the lock of this worker's card, as long as it lives


def own_card():
    """The number of the card that this worker alone works on; None on a processor. Workers take the cards among them, and one that is started in
    the place of another takes its card."""
    for number in range(PLAN["cards"]):
        file = (Path(tempfile.gettempdir()) / f"rightfit-card-{PLAN['plan']}-{number}").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        _held.append(file)
        return number
    if PLAN["cards"]:
        raise SystemExit(f"there are more workers than the {PLAN['cards']} cards of the plan")
    return None


class Batcher:
    """Gathers what is asked for at most `wait_s`, at most `max_batch`, and answers it in one pass. A service says how (`groups`, `answers`)."""

    def __init__(self):
        self.waiting = asyncio.Queue(MOST_WAITING)

    def size(self, asked):
        """How much of a batch one request is."""
        return 1

    def groups(self, batch):
        """Requests of a batch that can share a pass."""
        return [batch]

    def answers(self, asked):
        """What is answered to each of a group."""
        raise NotImplementedError

    async def gathered(self):
        loop = asyncio.get_running_loop()
        batch = [await self.waiting.get()]
        until = loop.time() + PLAN["wait_s"]
        while sum(self.size(asked) for asked, _ in batch) < PLAN["max_batch"] and loop.time() < until:
            try:
                batch.append(await asyncio.wait_for(self.waiting.get(), until - loop.time()))
            except TimeoutError:
                break
        return batch

    async def work(self):
        while True:
            for group in self.groups(await self.gathered()):
                try:
                    found = await asyncio.to_thread(self.answers, [asked for asked, _ in group])
                except Exception as error:
                    for _, answer in group:
                        answer.set_exception(HTTPException(422, str(error).splitlines()[0]))
                    continue
                for (_, answer), value in zip(group, found, strict=True):
                    answer.set_result(value)

    async def answer(self, asked):
        answer = asyncio.get_running_loop().create_future()
        try:
            self.waiting.put_nowait((asked, answer))
        except asyncio.QueueFull:
            raise HTTPException(503, "too many requests wait; try again later", headers={"Retry-After": "1"}) from None
        return await answer


def check_key(authorization: str = Header("")):
    if not hmac.compare_digest(authorization.encode(), f"Bearer {KEY}".encode()):
        raise HTTPException(401, "send the key as Authorization: Bearer KEY")


def service(batcher):
    """The program that uvicorn starts, with a batcher of the kind `batcher` at work while it runs."""

    @contextlib.asynccontextmanager
    async def lifespan(app):
        app.state.batcher = batcher()
        worker = asyncio.create_task(app.state.batcher.work())
        yield
        worker.cancel()

    app = FastAPI(title="rightfit service", lifespan=lifespan)

    @app.get("/health")
    async def health():
        return {"plan": PLAN["plan"]}

    return app
