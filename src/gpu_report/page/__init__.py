"""The page of a study: one HTML file with the tables, figures and answers of one machine."""
