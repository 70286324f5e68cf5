"""Times and sizes as people write them: ``1h30m``, ``50MB``. Law: text in, a number out; an error names the option and
gives an example."""

from __future__ import annotations

import re

from workbench.errors import BadOption
from workbench.records.plain import plain
from workbench.store.keeping.kept import MOST

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
#: The power of 1000, or of 1024 for KiB and the like, of each unit of size.
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3}


def wrong(option: str, given: str, wanted: str, write: str) -> BadOption:
    """The error for an invalid value of an option: what was given, what was expected, what to write."""
    return BadOption(f"--{option} {given}: expected {wanted}. For example: --{option} {write}.")


def _seconds(text: str) -> float:
    match = _DURATION.fullmatch(text)
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match else (0.0,) * 4
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def duration(text: str, option: str = "for", example: str = "8h or 1h30m") -> float:
    """Seconds in ``8h``, ``30m`` or ``1h30m``. Raises BadOption, which names ``option``."""
    from workbench.engine.judging.patience import MOST_S

    total = _seconds(text)
    if not 0 < total <= MOST_S:
        raise wrong(option, text, f"a time with its unit (d, h, m, s), at most {MOST_S // 86400:.0f}d", example)
    return total


def save_every(given: int | float | str) -> int | float:
    """Steps (an int) or seconds (a float) between checkpoints, from ``5``, ``"5"`` or ``"10m"``. Raises BadOption."""
    given = plain(given)
    if isinstance(given, str):
        if re.fullmatch(r"\d{1,12}", given) and int(given) > 0:
            return int(given)
        if _seconds(given) > 0:
            return _seconds(given)
    elif isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    raise wrong("save-every", str(given), "a number of steps, or a time with its unit (d, h, m, s)", "5 or 10m")


def keep_data(given: int | str) -> int:
    """Bytes of the largest file that is kept, from ``50MB``, ``50MiB`` or ``off`` (0). Raises BadOption."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)\s*(?:([kMG])(i?))?B?", str(given), re.IGNORECASE)
    size = 0 if given == "off" else -1
    if match:
        size = round(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[(match[2] or "").upper()])
    if isinstance(given, bool) or not 0 <= size <= MOST:
        raise wrong(
            "keep-data", str(given), f"a size with its unit (kB, MB, GB), at most {MOST // 10**9}GB, or off", "50MB"
        )
    return size
