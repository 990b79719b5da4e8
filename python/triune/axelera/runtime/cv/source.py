"""`axelera.runtime.cv.source`: where pictures come from."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

from triune._text import short
from triune._video import Video, is_video
from triune.axelera.runtime._errors import vendor
from triune.axelera.runtime._images import Image
from triune.errors import Error

__all__ = ["Image", "Source", "VideoSource", "create_source"]


class Source(abc.ABC):
    """What gives pictures: going through it yields an `Image` each."""

    @property
    @abc.abstractmethod
    def fps(self) -> float:
        """Pictures a second; 0 where there is no such rate."""

    @property
    @abc.abstractmethod
    def frame_count(self) -> int:
        """How many pictures there are; 0 if nobody knows, as of a camera."""

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Image]:
        """Yield the pictures."""


class VideoSource(Source):
    """The pictures of a video, a camera, a file or a folder, once; RGB. Close it, or use it in a ``with``."""

    def __init__(self, pictures: Iterator[Image], fps: float, frame_count: int, close: Callable[[], None]) -> None:
        """Take what `create_source` found."""
        self._pictures, self._fps, self._count, self._close = pictures, fps, frame_count, close

    @property
    def fps(self) -> float:
        """Pictures a second; 0 of files and folders."""
        return self._fps

    @property
    def frame_count(self) -> int:
        """How many pictures there are; 0 if nobody knows, as of a camera."""
        return self._count

    def __iter__(self) -> Iterator[Image]:
        """Return the iterator, the same each time."""
        return self._pictures

    def __next__(self) -> Image:
        """Return the next picture."""
        return next(self._pictures)

    def close(self) -> None:
        """Close the file; doing so again is harmless."""
        self._close()

    def __enter__(self) -> Self:
        """Return the source."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def create_source(
    input_path: str | os.PathLike[str],
    event_callback: Callable[[int, str], None] | None = None,
    buffer_size: int = 30,
    backend: Literal["ffmpeg", "opencv"] = "ffmpeg",
    live_source: bool | None = None,
) -> VideoSource:
    """Return the pictures of a video, a camera (``/dev/video0``), a stream's address, a picture file, or a folder of those.

    Videos are decoded by PyAV for the backend "ffmpeg" if it is installed, else by OpenCV, in the calling thread: none is
    dropped, and `buffer_size` and `live_source` change nothing. A folder's come by their names. `event_callback` gets
    (−1, message) of what cannot be decoded, before that is raised. Raises RuntimeError if there is nothing to read, ImportError
    if a decoder is missing.
    """
    place = os.fspath(input_path)
    known = {"ffmpeg": None, "opencv": "opencv"}
    if backend not in known:
        raise ValueError(short(f"create_source: backend {backend!r} is none of {', '.join(known)}"))
    try:
        if not is_video(place) and "://" not in place and not place.startswith("/dev/") and not place.isdigit():
            return _of_pictures(Path(place), event_callback)
        video = Video(place, "opencv" if backend == "opencv" else None)
    except Error as error:
        raise _told(error, event_callback) from None
    return VideoSource(_of_video(video, place, event_callback), video.fps, video.count, video.close)


def _told(error: Error, event_callback: Callable[[int, str], None] | None) -> Exception:
    if event_callback is not None:
        event_callback(-1, str(error))
    return vendor(error)


def _of_video(video: Video, place: str, event_callback: Callable[[int, str], None] | None) -> Iterator[Image]:
    try:
        for frame in video:
            image = Image.from_array(frame.pixels, "RGB", source=place)
            image.presentation_timestamp = frame.microseconds
            yield image
    except Error as error:
        raise _told(error, event_callback) from None
    finally:
        video.close()


def _of_pictures(path: Path, event_callback: Callable[[int, str], None] | None) -> VideoSource:
    from triune.batch._pictures import ANIMATIONS, SUFFIXES, frames_of
    from triune.errors import ArgumentError, FileError

    if os.path.isdir(path):
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        if not files:
            raise ArgumentError(f"{path}: there are no pictures in the folder")
    elif os.path.exists(path):
        files = [path]
    else:
        raise FileError(f"{path}: there is no such file")

    def pictures() -> Iterator[Image]:
        for file in files:
            try:
                for _, frame in frames_of(file):
                    pixels: Any = frame.convert("L" if frame.mode == "L" else "RGB")
                    yield Image.from_pil(pixels, source=str(file))
                    if file.suffix.lower() not in ANIMATIONS:
                        break
            except Error as error:
                raise _told(error, event_callback) from None

    return VideoSource(pictures(), 0.0, len(files), lambda: None)
