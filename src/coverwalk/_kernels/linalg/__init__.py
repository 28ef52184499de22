"""Linear algebra, random numbers and arrays by address."""
