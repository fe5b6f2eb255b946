"""`python -m connect_reconciler.cli`: the command where no script is installed."""

import sys

from connect_reconciler.cli import main

sys.exit(main())
