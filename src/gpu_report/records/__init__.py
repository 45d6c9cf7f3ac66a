"""What was measured: the schema of a record, of the calibration, and which code measured."""
