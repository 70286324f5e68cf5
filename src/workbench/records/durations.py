"""Spans of time in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A span of time in words: ``42 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 59.5:
        return f"{max(seconds, 0):.0f} s" if seconds >= 9.95 else f"{max(seconds, 0):.1f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h"
