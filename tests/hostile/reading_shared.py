"""What several of the `reading` files use."""

from __future__ import annotations

LOOPBACK_PORTS = (8765, 8888)
