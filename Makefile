.PHONY: test lint format demo docs

test:
	pytest

lint:
	ruff check . && ruff format --check . && mypy && lint-imports

format:
	ruff check --fix . && ruff format .

demo:
	coverwalk demo

docs:
	sphinx-build -W --keep-going -b html docs docs/_build
