"""Connect's three topics and our assignments topic: codecs, snapshots, logs."""
