"""`python -m poot` is the command `poot`, where that is not on the path."""

import sys

from poot.cli import main

sys.exit(main())
