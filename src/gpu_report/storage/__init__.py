"""Files that are whole or not there, JSON and tables with declared content, and locks."""
