"""Importing this makes `icraft.xir`, `icraft.xrt`, `icraft.host_backend`, `icraft.zg330backend`, `icraft.buyibackend` and
`icraft.wl170backend` importable, and the same without ``icraft.``.

Raises ImportError if something else of one of these names is installed; see `triune.compat.install`.
"""

from triune.compat import ICRAFT, install

__all__: list[str] = []

install("icraft", ICRAFT)
