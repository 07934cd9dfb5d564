"""`python -m poot.cli`, where the `poot` command is not on the path."""

import sys

from poot.cli import main

sys.exit(main())
