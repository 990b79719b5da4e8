"""The vendor's module `wl170backend`, for programs that import it and run elsewhere: making a `WL170Backend` raises NotSupported.

Its names are those that public programs use; nothing else of it is published.
"""

from __future__ import annotations

from triune.icraft._xrt.wl170 import OcmOptMethod, WL170Backend

__all__ = ["OcmOptMethod", "WL170Backend"]
