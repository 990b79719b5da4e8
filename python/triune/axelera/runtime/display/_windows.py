"""Windows: of OpenCV's where there is a screen, pictures in characters on a terminal, or none at all."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Self

import numpy as np

from triune._files import opened
from triune.axelera.runtime._arguments import shown
from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime._images import Image
from triune.axelera.runtime.display._drawing import Draw, Pixels
from triune.errors import FileError

__all__ = ["App", "Layer", "Window"]

_LARGEST = 16384
"""Pixels that nothing on a screen has more of."""

_RENDERERS = ("auto", "opencv", "console", "none")


def _renderer(wanted: Any) -> str:
    """Return what shows windows. Raises InvalidArgument for an unknown name, ImportError for OpenCV without it."""
    name = {True: "auto", False: "none", None: "none"}.get(wanted, wanted)
    if name == "iterm2":
        name = "console"
    if name not in _RENDERERS:
        raise InvalidArgument(f"display.App: renderer {wanted!r} is none of {', '.join(_RENDERERS)}")
    screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or sys.platform != "linux"
    if name == "auto":
        if screen and find_spec("cv2") is not None:
            return "opencv"
        return "console" if sys.stdout.isatty() else "none"
    if name == "opencv" and find_spec("cv2") is None:
        raise ImportError("display.App(renderer='opencv') needs OpenCV: pip install opencv-python", name="cv2")
    return str(name)


@dataclass
class Layer:
    """A text or picture over a window's picture. Its fields can be changed, by ``layer["text"] = …`` too, until it is hidden."""

    position: str
    text: str = ""
    image: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    visible: bool = True

    def __getitem__(self, name: str) -> Any:
        """Return a field or an option."""
        return getattr(self, name) if name in ("position", "text", "visible") else self.options[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a field or an option."""
        if name in ("position", "text", "visible"):
            setattr(self, name, value)
        else:
            self.options[name] = value

    def hide(self, *_: Any) -> None:
        """Take it away at once; a time and duration change nothing."""
        self.visible = False

    def show(self, *_: Any) -> None:
        """Let it be seen at once; a time and duration change nothing."""
        self.visible = True

    def place(self, width: int, height: int, inner: tuple[int, int]) -> tuple[int, int]:
        """Return its upper left corner in a picture of that size, in pixels. Raises InvalidArgument for a bad position."""
        found = []
        try:
            for part, extent, own, axis in zip(self.position.split(","), (width, height), inner, "xy", strict=True):
                text = part.strip()
                at = float(text[:-1]) / 100 * extent if text.endswith("%") else float(text.removesuffix("px"))
                anchor = self.options.get(f"anchor_{axis}")
                found.append(round(at - {"center": own / 2, "right": own, "bottom": own}.get(str(anchor), 0)))
        except (ValueError, OverflowError):
            raise InvalidArgument(f"position {self.position!r}: expected such as '20px, 10%'") from None
        return found[0], found[1]

    @property
    def font_size(self) -> int:
        """Pixels of its letters' height. Raises InvalidArgument for none, or more than a screen has."""
        given = self.options.get("font_size")
        size = 16 if given is None else given
        if not isinstance(size, int | float) or not 1 <= size <= _LARGEST:
            raise InvalidArgument(f"font_size: expected 1 to {_LARGEST}, got {shown(given)}")
        return int(size)


class Window:
    """A window: calling it shows a picture with what was found in it."""

    def __init__(self, title: str, size: tuple[int, int], renderer: str) -> None:
        """Made by `App.create_window`."""
        self.title, self.size, self.renderer = title, size, renderer
        self.picture: Pixels | None = None
        """What was shown last, RGB, (H, W, 3): Triune's addition, for programs that look at it themselves."""
        self.shown = 0
        """How many pictures were shown."""
        self._closed = threading.Event()
        self._layers: list[Layer] = []
        self._options: dict[str, Any] = {}

    @property
    def is_closed(self) -> bool:
        """Whether the window was closed, by `close` or by the user."""
        return self._closed.is_set()

    def options(self, stream_id: int = 0, /, **options: Any) -> None:
        """Set how pictures are shown: `title` is written at the top; others are kept and change nothing, as `stream_id` does."""
        self._options.update(options)

    def __call__(self, image: Any, results: Any = None, stream_id: int = 0) -> None:
        """Show a picture and what was found; nothing once the window is closed.

        An array of three channels is taken for BGR, as OpenCV's are. `stream_id` changes nothing.
        """
        if self.is_closed:
            return
        canvas = Draw(Image.from_any(image, "BGR"))
        if results is not None:
            canvas.found(results)
        if self._options.get("title"):
            canvas.text((canvas.width / 2, 0), str(self._options["title"]))
        for layer in self._layers:
            if layer.visible:
                self._lay(canvas, layer)
        self.picture, self.shown = canvas.pixels, self.shown + 1
        if self.renderer == "opencv":
            self._opencv(self.picture)
        elif self.renderer == "console":
            self._console(self.picture)

    show = __call__

    def _lay(self, canvas: Draw, layer: Layer) -> None:
        if layer.text:
            at = layer.place(canvas.width, canvas.height, canvas.textsize(layer.text, layer.font_size))
            canvas.text(at, layer.text, font_size=layer.font_size)
        elif layer.image is not None:
            picture = layer.image
            canvas._picture.paste(picture, layer.place(canvas.width, canvas.height, picture.size), picture)

    def text(self, position: str, text: str, *, existing: Layer | None = None, **options: Any) -> Layer:
        """Write over all pictures that follow; with `existing`, in place of that one.

        `position` is such as ``'20px, 10%'``; `anchor_x`, `anchor_y` and `font_size` count among the options.
        """
        if existing is not None:
            existing.position, existing.text, existing.visible = position, text, True
            existing.options.update(options)
            return existing
        layer = Layer(position, text, options=options)
        self._layers.append(layer)
        return layer

    def image(self, position: str, path: Any, *, scale: float = 1.0, **options: Any) -> Layer:
        """Lay a picture file over all pictures that follow, its sides `scale` times as long.

        `anchor_x` and `anchor_y` count among the options. Raises InvalidArgument if it cannot be read, or would be larger
        than a screen.
        """
        from PIL import Image as Pillow

        try:
            # A picture's file ends; a pipe's writer may never come.
            with opened(path) as file, Pillow.open(file) as image:
                picture = image.convert("RGBA")
        except FileError as error:
            raise InvalidArgument(str(error)) from None
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"{path}: {error}") from None
        if not 0 < scale * max(picture.size) <= _LARGEST:
            raise InvalidArgument(f"scale: expected a picture of 1 to {_LARGEST} pixels a side, got {shown(scale)}")
        extents = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
        layer = Layer(position, image=picture.resize(extents), options=options)
        self._layers.append(layer)
        return layer

    def _opencv(self, pixels: Pixels) -> None:
        import cv2

        if self.shown == 1:
            cv2.namedWindow(self.title, cv2.WINDOW_NORMAL)
            cv2.resizeWindow(self.title, *self.size)
        cv2.imshow(self.title, np.ascontiguousarray(pixels[..., ::-1]))
        if cv2.waitKey(1) & 0xFF in (ord("q"), 27) or cv2.getWindowProperty(self.title, cv2.WND_PROP_VISIBLE) < 1:
            self.close()

    def _console(self, pixels: Pixels) -> None:
        """Write the picture to standard output, two pixels a character."""
        from PIL import Image as Pillow

        columns = max(min(shutil.get_terminal_size().columns, 100), 2)
        rows = max(round(pixels.shape[0] / pixels.shape[1] * columns / 2), 1)
        small = np.asarray(Pillow.fromarray(pixels).resize((columns, rows * 2)))
        lines = []
        for upper, lower in zip(small[0::2], small[1::2], strict=True):
            cells = (
                f"\x1b[38;2;{a[0]};{a[1]};{a[2]}m\x1b[48;2;{b[0]};{b[1]};{b[2]}m▀"
                for a, b in zip(upper.tolist(), lower.tolist(), strict=True)
            )
            lines.append("".join(cells) + "\x1b[0m")
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Close the window; doing so again is harmless."""
        if not self._closed.is_set() and self.renderer == "opencv" and self.shown:
            import cv2

            cv2.destroyWindow(self.title)
        self._closed.set()

    def wait_for_close(self) -> None:
        """Wait until the user closes the window (q, Escape); at once where nobody sees one: without OpenCV, or before the
        first picture."""
        if self.renderer != "opencv" or not self.shown:
            self._closed.set()
            return
        import cv2

        while not self.is_closed:
            if cv2.waitKey(50) & 0xFF in (ord("q"), 27) or cv2.getWindowProperty(self.title, cv2.WND_PROP_VISIBLE) < 1:
                self.close()


class App:
    """Windows, and threads that fill them. Use it in a ``with``: it closes its windows."""

    def __init__(self, renderer: Any = "auto", visible: Any = None, **options: Any) -> None:
        """Choose what shows windows: "opencv", "console", "none", or "auto" for the first of these that there is.

        `visible` is `renderer`'s older name; `options` of other renderers change nothing. Raises InvalidArgument for an unknown
        renderer, ImportError for OpenCV where it is not installed.
        """
        self.renderer = _renderer(renderer if visible is None else visible)
        self.windows: list[Window] = []
        self._threads: list[tuple[threading.Thread, list[BaseException]]] = []

    def create_window(self, title: str, size: tuple[int, int] = (900, 600)) -> Window:
        """Return a window; `size` is width and height in pixels where `opencv` shows it. The app closes it in the end."""
        window = Window(title, size, self.renderer)
        self.windows.append(window)
        return window

    def start_thread(self, target: Callable[..., Any], args: tuple[Any, ...] = (), name: str | None = None) -> None:
        """Run a function in a thread, a daemon; `run` waits for it, and raises what it raised."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                target(*args)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append((thread, failed))
        thread.start()

    def run(self, interval: float = 1 / 30) -> None:
        """Wait until the threads have ended, and raise what the first that failed raised. `interval` changes nothing."""
        for thread, failed in self._threads:
            thread.join()
            if failed:
                raise failed[0]

    def __enter__(self) -> Self:
        """Return the app."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the windows."""
        for window in self.windows:
            window.close()
