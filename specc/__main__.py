"""`python -m specc` is the command line."""

from specc.cli import main

if __name__ == "__main__":
    main()
