"""The Icraft tools' Python modules on Triune's core: `xir` (networks), `xrt` (sessions and devices) and the backends.

Names, signatures and error classes are the vendor's; docs/icraft.md says what differs. Importing this imports nothing else.
"""

from __future__ import annotations

__all__: list[str] = []
