"""Tests of Ctrl-C need it: a suite that was started in the background would ignore it."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
