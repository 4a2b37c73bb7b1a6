"""Readers: files of logs as tables of named columns; one module a format."""
