"""`axelera.runtime.cv`: pictures from files, folders, videos, cameras and streams, as the vendor documents them."""

from __future__ import annotations

from triune.axelera.runtime._images import ColorFormat, Image
from triune.axelera.runtime.cv.source import Source, VideoSource, create_source

from . import source

__all__ = ["ColorFormat", "Image", "Source", "VideoSource", "create_source", "source"]
