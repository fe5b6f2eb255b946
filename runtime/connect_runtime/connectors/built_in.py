"""The version that the built-in connectors show: the distribution's own."""

from typing import Final

VERSION: Final = "0.1.0"
