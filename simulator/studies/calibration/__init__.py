"""Parts of `simulator.studies.calibrate`: data, least squares, the profile, the runs held out."""
