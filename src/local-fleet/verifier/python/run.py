"""Entry: `python3 -I run.py FD`. What it needs beside the standard library lies next to it."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from verifier_run.main import main

main(int(sys.argv[1]))
# The answer is out: what the verifier left behind (threads, finalisers, exit handlers) is not waited for.
sys.stdout = None
os._exit(0)
