"""Rich's console, which shows the characters that a terminal would obey: no text from elsewhere acts on it."""

from collections.abc import Iterable
from typing import IO, Any

from rich import console
from rich.segment import Segment
from rich.text import Text

from replication_lab.model.core.visible import visible


class Console(console.Console):
    """A console whose own colours and movements are the only ones."""

    @property
    def file(self) -> IO[str]:
        """Return the stream itself, also while `Live` has put one of its own before the one that the lab prints to."""
        found = super().file
        return getattr(found, "rich_proxied_file", found)

    @file.setter
    def file(self, stream: IO[str]) -> None:
        self._file = stream

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as text. Here it is not laid out yet, so that an escaped character has its room."""
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the parts of anything that can be printed, also of texts that were made without `render_str`."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=visible(part.text))
