"""`python -m ioaware`: the command line without an installed script."""

from ioaware.cli.main import main

if __name__ == "__main__":
    main()
