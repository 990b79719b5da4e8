"""What the backends of accelerators share: options, deployment, running, checks, logs."""

from __future__ import annotations

__all__: list[str] = []
