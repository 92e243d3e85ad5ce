"""Measure JPEG decoding on one core of this machine: two photographs of scikit-learn at several
sizes and qualities, by decoder.

    python validation/measure/decode_rates.py OUT.csv     needs scikit-learn, Pillow,
                                                          opencv-python-headless, simplejpeg,
                                                          imagecodecs

Each row: decoder, output pixels, bytes of the file, seconds of one decode (best of several, one
thread), and where asked the crop and resize to 224 x 224 of the training recipes.
"""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import imagecodecs
import numpy as np
import simplejpeg
from PIL import Image
from sklearn.datasets import load_sample_images

cv2.setNumThreads(1)


def pillow(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def pillow_crop(data: bytes) -> Any:
    image = Image.open(io.BytesIO(data)).convert("RGB")
    width, height = image.size
    return np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, box=(width * 0.1, height * 0.1, width * 0.8, height * 0.8)))


def opencv(data: bytes) -> Any:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def opencv_crop(data: bytes) -> Any:
    image = opencv(data)
    height, width = image.shape[:2]
    part = image[height // 10 : height * 8 // 10, width // 10 : width * 8 // 10]
    return cv2.resize(part, (224, 224), interpolation=cv2.INTER_LINEAR)


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "pillow": pillow,
    "pillow + crop to 224": pillow_crop,
    "opencv": opencv,
    "opencv + crop to 224": opencv_crop,
    "simplejpeg": simplejpeg.decode_jpeg,
    "imagecodecs": imagecodecs.jpeg_decode,
}


def best_s(work: Callable[[bytes], Any], data: bytes) -> float:
    """Seconds of one call: the least mean of seven runs of at least 0.1 s."""
    work(data)
    start = time.perf_counter()
    work(data)
    repeats = max(1, int(0.1 / (time.perf_counter() - start)))
    found = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeats):
            work(data)
        found.append((time.perf_counter() - start) / repeats)
    return min(found)


def main() -> None:
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["decoder", "photograph", "pixels", "quality", "file_bytes", "seconds"])
        for number, photograph in enumerate(load_sample_images().images):
            for width in (320, 500, 640, 1600):
                image = Image.fromarray(photograph).resize((width, width * 427 // 640), Image.Resampling.LANCZOS)
                for quality in (75, 90, 97):
                    buffer = io.BytesIO()
                    image.save(buffer, "JPEG", quality=quality)
                    data = buffer.getvalue()
                    for name, work in DECODERS.items():
                        writer.writerow([name, number, image.width * image.height, quality, len(data), f"{best_s(work, data):.6g}"])
                        stream.flush()


if __name__ == "__main__":
    main()
