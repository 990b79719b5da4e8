"""What `triune.icraft.xir` is made of, one file per family of classes. Programs import `triune.icraft.xir`."""

from __future__ import annotations

__all__: list[str] = []
