"""tuitrain: a terminal application that trains PyTorch models and shows what the GPUs do."""


def version() -> str:
    """The installed version, from the package's metadata."""
    from importlib.metadata import PackageNotFoundError, version  # 40 ms that most commands do not need

    try:
        return version("tuitrain")
    except PackageNotFoundError:
        return "unknown"
