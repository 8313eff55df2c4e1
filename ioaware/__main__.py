"""Run the command line as `python -m ioaware`, and as the installed script."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line.

    Ctrl-C while its modules are imported ends the process without a traceback.
    """
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from ioaware.cli.main import main as run

    if default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
