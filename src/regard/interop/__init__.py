"""Import and export of models of other libraries."""
