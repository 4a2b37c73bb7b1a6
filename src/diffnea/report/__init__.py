"""Reports: records and fits as one self-contained HTML page."""

from diffnea.report.page import benchmark
