"""`axelera.runtime.display`: windows that show pictures with what was found in them, as the vendor's examples use them.

What is drawn is an array, too (`draw`, `Window.picture`), so that programs can be looked at where there is no screen.
"""

from __future__ import annotations

from triune.axelera.runtime.display._drawing import Draw, draw, track_color
from triune.axelera.runtime.display._windows import App, Layer, Window

__all__ = ["App", "Draw", "Layer", "Window", "draw", "track_color"]
