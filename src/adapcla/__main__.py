"""`python -m adapcla`: the command line."""

from adapcla.cli import main

if __name__ == "__main__":
    main()
