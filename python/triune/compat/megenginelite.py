"""Importing this makes `megenginelite` importable, as Triune's front end.

Raises ImportError if the vendor's own `megenginelite` is installed; see `triune.compat.install`.
"""

from triune.compat import install

__all__: list[str] = []

install("megenginelite", "megenginelite")
