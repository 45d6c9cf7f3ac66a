"""The JSON schemas, as files of the package."""
