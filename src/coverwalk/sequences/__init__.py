"""What `SequenceModel` is assembled from: alphabets, parameters, context trees; and the coder that proves it."""
