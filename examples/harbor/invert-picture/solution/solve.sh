#!/bin/bash
python3 - <<'PYTHON'
data = open("/app/picture.pgm", "rb").read()
header = data[: -16 * 16]
open("/app/negative.pgm", "wb").write(header + bytes(255 - byte for byte in data[-16 * 16 :]))
PYTHON
