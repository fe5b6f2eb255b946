"""From a plan to a changed cluster, on a terminal: asking, progress, reports and next steps."""
