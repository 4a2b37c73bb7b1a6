"""Reports: records and fits as one self-contained HTML page."""

from diffnea.report.comparison import Comparison, compare, comparison_page
from diffnea.report.fit_page import fit
from diffnea.report.html import can_render
from diffnea.report.page import benchmark
