"""Reading a configuration file as Snakemake does."""

from pathlib import Path
from typing import Any

from gpu_report.errors import ConfigError


def read_config(path: Path) -> dict[str, Any]:
    """The configuration as plain values, not yet checked.

    Raises:
        ConfigError: the file is missing or is not YAML with keys at its top.
    """
    import yaml

    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name a configuration with --configfile") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error}); save it as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deep to be read; write it flatter") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no keys; begin from config/study.yaml")
    return values
