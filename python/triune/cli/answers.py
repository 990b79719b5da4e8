"""What `triune run` says of pictures: boxes with names, and drawings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune._answers import Answer, Reader, draw
from triune._files import replaced
from triune._video import Video, VideoWriter, is_video
from triune.batch import Preprocess
from triune.batch._pictures import SUFFIXES, Frame
from triune.cli.data import pictures_of

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Told", "check_target", "is_picture"]

_SHOWN = 10
"""Pictures whose boxes are printed, and boxes of each."""


class Told:
    """The answers for the rows of a run."""

    def __init__(
        self,
        results: Mapping[str, npt.NDArray[Any]],
        frame: Frame | None,
        labels: Sequence[str],
        how: Preprocess,
        places: Sequence[tuple[Path, int]],
        options: argparse.Namespace,
    ) -> None:
        """`places` has file and number in it of each row; those of pictures are what boxes are told in."""
        self._results = results
        self._how = how
        self._places = places
        pictures = frame is not None and any(is_picture(file) for file, _ in places)
        self._reader = None
        if pictures or options.boxes:
            self._reader = Reader(results, frame, labels, boxes=options.boxes, score=options.score, iou=options.iou)
        elif options.draw:
            raise ValueError("--draw: expected images or videos as --input, for a model that takes images")
        if options.draw and self._reader is not None and not self._reader.known:
            raise ValueError(f"--draw: {self._reader.said}")

    def lines(self, names: Sequence[str]) -> Iterator[str]:
        """Yield a line on what the outputs are, and one per picture with its boxes; nothing for classes."""
        reader = self._reader
        if reader is None or not reader.boxes:
            return
        yield reader.said
        for row, (_, _, answers) in enumerate(self._each()):
            if row == _SHOWN:
                yield f"  … {len(self._places) - _SHOWN} more"
                return
            name = names[row] if row < len(names) else f"image {row}"
            yield f"  {name}: {len(answers)} found" if answers else f"  {name}: nothing found"
            yield from (f"    {answer}" for answer in answers[:_SHOWN])
            if len(answers) > _SHOWN:
                yield f"    … {len(answers) - _SHOWN} more"

    def draw(self, target: Path) -> None:
        """Write the pictures with what was found in them: into a folder; to a file, if `target` is named as a picture is, and
        there is one of them; or as a video, if `target` is named as one and they are a video's.
        """
        if is_video(target):
            self._film(target)
            return
        single = _names_a_picture(target)
        if not single:
            target.mkdir(exist_ok=True)
        used: set[str] = set()
        for file, picture, answers in self._each():
            if picture is None:
                continue
            stem = file.stem
            number = 1
            while f"{stem}.png" in used:
                stem, number = f"{file.stem}_{number}", number + 1
            used.add(f"{stem}.png")
            path = target if single else target / f"{stem}.png"
            kind = {".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF"}.get(path.suffix.lower(), path.suffix[1:].upper())
            with replaced(path) as opened:
                draw(picture, answers).save(opened, kind)

    def _film(self, target: Path) -> None:
        files = list(dict.fromkeys(file for file, _ in self._places))
        if len(files) != 1 or not is_video(files[0]):
            raise ValueError(
                f"--draw: {target.name} is a video's name, for one video as --input; name a folder for pictures"
            )
        with Video(files[0]) as video:
            fps = video.fps
        # Where the video does not say how fast it is, it is shown as most are.
        with VideoWriter(target, fps or 25.0) as film:
            for _, picture, answers in self._each():
                assert picture is not None
                film.write(np.asarray(draw(picture, answers)))

    def _each(self) -> Iterator[tuple[Path, Image.Image | None, list[Answer]]]:
        """Yield file, picture and answers of each row."""
        assert self._reader is not None
        frames: Iterator[Image.Image] = iter(())
        for row, (file, number) in enumerate(self._places):
            picture = None
            if is_picture(file):
                if number == 0:
                    frames = pictures_of(file)
                picture = next(frames)
            size = picture.size if picture is not None else None
            yield file, picture, self._reader.read(self._results, row, size, self._how)


def check_target(target: Path, places: Sequence[tuple[Path, int]]) -> None:
    """Raise ValueError where pictures are to be drawn into a file that is named as one of them is."""
    if _names_a_picture(target) and not is_video(target) and len(places) > 1:
        raise ValueError(
            f"--draw: {target.name} is a picture's name, for one picture as --input, and there are {len(places)}; name a "
            "folder for them"
        )


def _names_a_picture(target: Path) -> bool:
    return target.suffix.lower() in SUFFIXES and not target.is_dir()


def is_picture(file: Path) -> bool:
    """Return whether a file has pictures in it, by its name."""
    return file.suffix.lower() in SUFFIXES or is_video(file)
