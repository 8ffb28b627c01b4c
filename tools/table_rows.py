# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that come one by one over a long run: columns that line up, or Markdown."""


class TableRows:
    """columns: (title, width), where a negative width is that of numbers, which end at the right."""

    def __init__(self, columns, markdown):
        self.columns, self.markdown = columns, markdown

    def head(self):
        titles = self.row(*(title for title, _ in self.columns))
        return titles + "\n" + "|" + " --- |" * len(self.columns) if self.markdown else titles

    def row(self, *cells):
        if self.markdown:
            return "| " + " | ".join(map(str, cells)) + " |"
        return "  ".join(f"{cell:>{-width}}" if width < 0 else f"{cell:<{width}}"
                         for cell, (_, width) in zip(map(str, cells), self.columns, strict=True)).rstrip()
