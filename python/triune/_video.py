"""Pictures out of video files, cameras and streams: by PyAV where that is installed, else by OpenCV."""

from __future__ import annotations

import importlib.util
import os
import stat
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from triune._files import UnreadableItem
from triune.errors import FileError

__all__ = ["SUFFIXES", "Backend", "Video", "VideoFrame", "VideoWriter", "is_video"]

SUFFIXES = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv"})
"""Endings of files that are taken for videos."""

Backend = Literal["av", "opencv"]

_MODULES: dict[Backend, str] = {"av": "av", "opencv": "cv2"}


def is_video(path: str | os.PathLike[str]) -> bool:
    """Say whether a file's name ends as a video's."""
    return os.path.splitext(os.fspath(path))[1].lower() in SUFFIXES


def _is_openable(path: str) -> bool:
    mode = os.stat(path).st_mode
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)


def _installed(place: str, backend: Backend | None = None) -> Backend:
    """Return the decoder to take, the one that is asked for or one that is there. Raises ImportError without it."""
    wanted: tuple[Backend, ...] = ("av", "opencv") if backend is None else (backend,)
    found = next((name for name in wanted if importlib.util.find_spec(_MODULES[name]) is not None), None)
    if found is None:
        module = {"av": "PyAV: pip install av", "opencv": "OpenCV: pip install 'triune[video]'"}[wanted[-1]]
        raise ImportError(f"{place}: videos need {module}", name=_MODULES[wanted[-1]])
    return found


class VideoFrame(NamedTuple):
    """One picture of a video."""

    number: int
    """Counted from 0."""
    microseconds: int | None
    """When it is to be shown, from the video's beginning; None if the decoder does not know."""
    pixels: npt.NDArray[np.uint8]
    """RGB, (H, W, 3)."""


class Video:
    """An opened video; going through it yields its pictures once. Close it, or use it in a ``with``."""

    def __init__(self, place: str | os.PathLike[str], backend: Backend | None = None) -> None:
        """Open a file, a camera (``/dev/video0``, ``0``) or a stream's address.

        `backend` is "av" (PyAV) or "opencv"; None takes the one that is installed. Raises ImportError, with the extra to install,
        without it; FileError if there is no such file, ArgumentError if it is no video that can be read.
        """
        self.place = os.fspath(place)
        found = _installed(self.place, backend)
        if "://" not in self.place and not self.place.isdigit() and not os.path.exists(self.place):
            raise FileError(f"{self.place}: there is no such file")
        if os.path.exists(self.place) and not _is_openable(self.place):
            # Decoders wait for a pipe's writer, and no signal ends that.
            raise FileError(f"cannot read {self.place}: it is neither a plain file nor a camera")
        self.backend: Backend = found
        self._opened: Any = self._av() if found == "av" else self._cv2()

    def _av(self) -> Any:
        import av

        try:
            container = av.open(self.place)
        except (OSError, ValueError) as error:
            raise UnreadableItem(f"{self.place}: not a video that can be read: {error}") from None
        if not container.streams.video:
            container.close()
            raise UnreadableItem(f"{self.place}: there are no pictures in it")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        self.fps = float(stream.average_rate or stream.guessed_rate or 0)
        self.count = int(stream.frames)
        if not self.count and container.duration and self.fps:
            self.count = round(container.duration / av.time_base * self.fps)
        return container

    def _cv2(self) -> Any:
        import cv2

        capture = cv2.VideoCapture(int(self.place) if self.place.isdigit() else self.place)
        if not capture.isOpened():
            # What FFmpeg says of it, OpenCV keeps to itself.
            why = "it is damaged or cut off, or OpenCV has no decoder for it"
            raise UnreadableItem(f"{self.place}: not a video that can be read: {why}")
        self.fps = float(capture.get(cv2.CAP_PROP_FPS))
        self.count = max(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), 0)
        return capture

    def __iter__(self) -> Iterator[VideoFrame]:
        """Yield the pictures in their order. Raises ArgumentError for damage, with the number of the picture."""
        return self._decoded_av() if self.backend == "av" else self._decoded_cv2()

    def _decoded_av(self) -> Iterator[VideoFrame]:
        number = 0
        try:
            for frame in self._opened.decode(video=0):
                time = None if frame.time is None else round(frame.time * 1_000_000)
                yield VideoFrame(number, time, frame.to_ndarray(format="rgb24"))
                number += 1
        except OSError as error:
            raise UnreadableItem(f"{self.place}: picture {number} cannot be decoded: {error}") from None

    def _decoded_cv2(self) -> Iterator[VideoFrame]:
        import cv2

        number = 0
        while self._opened is not None:
            there, pixels = self._opened.read()
            if not there:
                if self.count and number < self.count - 1 and "://" not in self.place:
                    raise UnreadableItem(f"{self.place}: picture {number} of {self.count} cannot be decoded")
                return
            # The time of the picture that was read.
            time = round(self._opened.get(cv2.CAP_PROP_POS_MSEC) * 1000)
            yield VideoFrame(number, max(time, 0), np.ascontiguousarray(pixels[..., ::-1]))
            number += 1

    def close(self) -> None:
        """Close the file; doing so again is harmless."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close() if self.backend == "av" else opened.release()

    def __enter__(self) -> Self:
        """Return the video."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class VideoWriter:
    """A video that is written, in MPEG-4: whole when it is committed, else not at all. A ``with`` does either."""

    def __init__(self, path: str | os.PathLike[str], fps: float, backend: Backend | None = None) -> None:
        """Begin a file, whose ending says its container (``.mp4``, ``.avi``, ``.mkv``, ``.mov``), of `fps` pictures a second.

        Raises ImportError, with the extra to install, without PyAV and OpenCV.
        """
        self.path = Path(path)
        self._fps = fps
        self.backend = _installed(os.fspath(path), backend)
        self._scratch = tempfile.TemporaryDirectory(prefix="triune-")
        self._file = Path(self._scratch.name) / f"video{self.path.suffix.lower()}"
        self._opened: Any = None
        self._stream: Any = None

    def write(self, pixels: npt.NDArray[np.uint8]) -> None:
        """Add a picture, RGB (H, W, 3), all of one size. Raises FileError if there is no encoder for the file's container."""
        # MPEG-4 halves colors: an odd row or column is doubled.
        even = np.pad(pixels, [(0, pixels.shape[0] % 2), (0, pixels.shape[1] % 2), (0, 0)], mode="edge")
        if self.backend == "av":
            self._write_av(even)
        else:
            self._write_cv2(even)

    def _write_av(self, pixels: npt.NDArray[np.uint8]) -> None:
        import av

        try:
            if self._opened is None:
                self._opened = av.open(str(self._file), "w")
                self._stream = self._opened.add_stream("mpeg4", rate=Fraction(self._fps).limit_denominator(1001))
                self._stream.height, self._stream.width = pixels.shape[:2]
                self._stream.pix_fmt = "yuv420p"
            self._opened.mux(self._stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        except (OSError, ValueError) as error:
            raise FileError(f"{self.path}: the video cannot be written: {error}") from None

    def _write_cv2(self, pixels: npt.NDArray[np.uint8]) -> None:
        import cv2

        if self._opened is None:
            height, width = pixels.shape[:2]
            self._opened = cv2.VideoWriter(str(self._file), cv2.VideoWriter.fourcc(*"mp4v"), self._fps, (width, height))
        if not self._opened.isOpened():
            raise FileError(f"{self.path}: the video cannot be written: OpenCV has no encoder for {self.path.suffix}")
        self._opened.write(np.ascontiguousarray(pixels[..., ::-1]))

    def commit(self) -> None:
        """Put the file in its place. Raises FileError if it cannot be written, or there was no picture."""
        from triune._files import replaced

        if self._opened is None:
            raise FileError(f"{self.path}: the video cannot be written: there are no pictures for it")
        if self.backend == "av":
            self._opened.mux(self._stream.encode())
        self._end()
        with replaced(self.path) as file, self._file.open("rb") as made:
            while block := made.read(1 << 20):
                file.write(block)

    def _end(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close() if self.backend == "av" else opened.release()

    def __enter__(self) -> Self:
        """Return the video."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Commit it, unless something was raised."""
        try:
            if kind is None:
                self.commit()
        finally:
            self._end()
            self._scratch.cleanup()
