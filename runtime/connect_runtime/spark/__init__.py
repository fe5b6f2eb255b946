"""The only importer of pyspark: session, launcher, worker entry, Python daemon."""
