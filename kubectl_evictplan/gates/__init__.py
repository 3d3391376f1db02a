"""Gates: rules over the figures and findings of a prediction, and whether it breaks them."""
