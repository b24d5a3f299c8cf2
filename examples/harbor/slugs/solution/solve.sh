#!/bin/bash
cat > /app/slug.py <<'PYTHON'
import re
import sys

print(re.sub(r"[^a-z0-9]+", "-", sys.argv[1].lower()).strip("-"))
PYTHON
