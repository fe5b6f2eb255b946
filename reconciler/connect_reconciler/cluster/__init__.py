"""The one port through which apply acts on a cluster, and its two adapters."""
