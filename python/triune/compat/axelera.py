"""Importing this makes `axelera.runtime` importable, as Triune's front end.

Raises ImportError if the vendor's own `axelera.runtime` is installed; see `triune.compat.install`.
"""

from triune.compat import install

__all__: list[str] = []

install("axelera", "axelera.runtime")
