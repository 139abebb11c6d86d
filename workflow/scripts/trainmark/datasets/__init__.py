"""Datasets: the catalogue, and what prepares a dataset and reads a prepared one."""
