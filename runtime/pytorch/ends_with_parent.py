"""Imported before anything else by programs that pdl starts: this process, and those that multiprocessing starts to run
the same program, end with the one that started them, also where that is killed. PyTorch takes seconds to import, in
which a process without this would be left behind."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
