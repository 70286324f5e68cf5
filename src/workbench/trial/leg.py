"""One leg, from the order to its outcome."""

from __future__ import annotations

from workbench.trial.runner import Link
from workbench.trial.wire import Message


class Legs:
    """Runs legs one after another in this process."""

    def __init__(self, link: Link) -> None:
        self.link = link

    def run(self, order: Message) -> Message:
        """Run one leg; the message that says how it was left."""
        raise NotImplementedError
