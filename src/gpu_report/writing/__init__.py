"""The report's words: tables, findings and templates in, LaTeX text out."""
