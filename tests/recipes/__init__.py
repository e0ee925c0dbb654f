"""The recipes of docs/recipes.md, and the files that they name."""
