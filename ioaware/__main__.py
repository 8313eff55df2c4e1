"""Run the command line as `python -m ioaware`."""

from ioaware.cli.main import main

if __name__ == "__main__":
    main()
