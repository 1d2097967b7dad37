"""`python -m adapcla`: the command line."""

from adapcla.cli.main import main

if __name__ == "__main__":
    main()
