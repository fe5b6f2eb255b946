"""Would the specs' configs work? Judged by the cluster, by installed rules, or by the lock file."""
