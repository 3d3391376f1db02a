"""Turn timelines and windows into the parts of a Prediction. Pure; one module per part."""
