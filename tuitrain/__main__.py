"""`python -m tuitrain`."""

from tuitrain.cli import main

if __name__ == "__main__":
    main()
