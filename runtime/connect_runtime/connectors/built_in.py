"""The versions that built-in plugins show: those that stand for Kafka's classes show the version of
Kafka whose classes they do the same as, so that configs that name it are valid; others the
distribution's own."""

from typing import Final

VERSION: Final = "4.1.0"
_OWN_VERSION: Final = "0.1.0"


def version_of(java_class: str) -> str:
    """Returns the version of a built-in, by its Java name."""
    return VERSION if java_class.startswith("org.apache.kafka.") else _OWN_VERSION
