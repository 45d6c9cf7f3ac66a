"""Reading a configuration file as Snakemake does."""

from pathlib import Path
from typing import Any, Final

from gpu_report.errors import ConfigError

_MOST_CHARACTERS: Final = 200_000


def read_config(path: Path) -> dict[str, Any]:
    """The configuration as plain values, not yet checked.

    Raises:
        ConfigError: the file is missing or is not YAML with keys at its top.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """A list of mappings to merge, each such a list again, would take all memory."""
            for key, value in node.value:
                if key.tag == "tag:yaml.org,2002:merge" and not isinstance(value, yaml.MappingNode):
                    raise yaml.constructor.ConstructorError(
                        None, None, "only one mapping can be merged by <<", key.start_mark
                    )
            super().flatten_mapping(node)

    try:
        text = path.read_text("utf-8")
        if len(text) > _MOST_CHARACTERS:
            raise ConfigError(f"{path} has {len(text)} characters, of at most {_MOST_CHARACTERS}; divide it")
        values = yaml.load(text, Loader)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; name a configuration with --configfile") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error}); save it as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deep to be read; write it flatter") from error
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, OverflowError) as error:  # of a date that is none
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no keys; begin from config/study.yaml")
    return values
