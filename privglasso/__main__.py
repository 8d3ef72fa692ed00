"""``python -m privglasso`` is the command line."""

from privglasso import main

if __name__ == "__main__":
    main()
