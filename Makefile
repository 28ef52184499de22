.PHONY: test lint format demo

test:
	pytest

lint:
	ruff check . && ruff format --check . && mypy

format:
	ruff check --fix . && ruff format .

demo:
	coverwalk demo
