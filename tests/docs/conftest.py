"""What the tests of pages share: how their blocks are read."""

from __future__ import annotations

import beside

beside.load(__file__, "page_blocks")
