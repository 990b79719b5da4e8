"""What `triune.icraft.host_backend` is made of, one file per purpose. Programs import `triune.icraft.host_backend`."""

from __future__ import annotations

__all__: list[str] = []
