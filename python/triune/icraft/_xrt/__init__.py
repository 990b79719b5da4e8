"""What `triune.icraft.xrt` is made of, one file per family of classes. Programs import `triune.icraft.xrt`."""

from __future__ import annotations

__all__: list[str] = []
