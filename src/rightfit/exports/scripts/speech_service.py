"""A Whisper behind HTTP, as OpenAI's interface for transcription has it: recordings that come together are heard together. Started by uvicorn;
reads service.json beside it."""

import io

import numpy as np
import service_core as core
from fastapi import Depends, Form, HTTPException, UploadFile
from faster_whisper import BatchedInferencePipeline, WhisperModel, decode_audio

PLAN = core.PLAN
RATE = 16_000
WINDOW_S = 30.0  # what a Whisper hears at once
LONGEST_S = 2 * 3600
GAP_S = 0.1  # of silence between recordings


class Listener(core.Batcher):
    def __init__(self):
        super().__init__()
        card = core.own_card()
        engine = {**PLAN["engine"], **({"device_index": card} if card is not None else {})}
        self.model = BatchedInferencePipeline(WhisperModel(PLAN["model"], **engine))

    def size(self, asked):
        return max(1, -(-len(asked[0]) // round(WINDOW_S * RATE)))

    def groups(self, batch):
        """Recordings in one language, or each in whatever it is."""
        found = {}
        for asked, answer in batch:
            found.setdefault(asked[1], []).append((asked, answer))
        return found.values()

    def answers(self, asked):
        """Recordings are laid one behind the other, and cut where each begins and ends."""
        begins, clips, sounds, at = [], [], [], 0.0
        for sound, _ in asked:
            seconds = len(sound) / RATE
            begins.append(at)
            clips += [
                {"start": at + float(first), "end": at + min(seconds, float(first) + WINDOW_S)}
                for first in np.arange(0.0, seconds, WINDOW_S)
            ]
            sounds += [sound, np.zeros(round(GAP_S * RATE), np.float32)]
            at += seconds + GAP_S
        language = asked[0][1]
        told = {"language": language} if language else {"multilingual": True}
        segments, about = self.model.transcribe(
            np.concatenate(sounds), batch_size=PLAN["max_batch"], vad_filter=False, clip_timestamps=clips, without_timestamps=False, **told
        )
        found = [[] for _ in asked]
        for part in segments:
            place = max(0, int(np.searchsorted(begins, part.start + 1e-3, side="right")) - 1)
            start = begins[place]
            found[place].append({"start": round(part.start - start, 2), "end": round(part.end - start, 2), "text": part.text})
        return [
            {"text": "".join(part["text"] for part in parts).strip(), "language": language or about.language, "segments": parts}
            for parts in found
        ]


app = core.service(Listener)


@app.post("/v1/audio/transcriptions", dependencies=[Depends(core.check_key)])
async def transcriptions(file: UploadFile, language: str = Form("")):
    try:
        sound = decode_audio(io.BytesIO(await file.read()), sampling_rate=RATE)
    except Exception as error:
        raise HTTPException(422, f"the file is no recording: {str(error).splitlines()[0]}") from None
    if not 0 < len(sound) <= LONGEST_S * RATE:
        raise HTTPException(422, f"a recording has from one moment to {LONGEST_S} seconds")
    if language and language not in app.state.batcher.model.model.supported_languages:
        raise HTTPException(422, f"the model has no language {language}")
    return await app.state.batcher.answer((sound, language))
