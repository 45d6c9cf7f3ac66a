"""Records and trace tables in, the tables of the study out."""
