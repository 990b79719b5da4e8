"""NPU programs without the board: one core in Rust under the vendors' own Python APIs.

The vendors' modules are `triune.axelera.runtime` and, for unmodified programs, the import names of `triune.compat`.
This module holds what belongs to no vendor: `compile`, which turns an ONNX file into a package for a device, and
`Session`, which runs a model on this machine's CPU. Importing it is cheap: numpy is loaded by what needs it.
"""

from triune._native import __version__

__all__ = ["__version__"]
