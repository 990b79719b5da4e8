"""The front end for Axelera's Metis cards."""
