"""The experiments of the paper's Section 5, made again: one file a table or figure, and the page that shows them."""
