"""Whether tests go to their full length: more kills, ranks, cases and hours. `make soak` runs them so, with THOROUGH=1.

`make test` has the shorter ones, which still meet every kind of fault.
"""

import os

IS_THOROUGH = os.environ.get("THOROUGH") == "1"
