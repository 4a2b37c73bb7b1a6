"""Reports: records and fits as one self-contained HTML page."""

from diffnea.report.benchmark_page import benchmark
from diffnea.report.check_page import check
from diffnea.report.comparison import Comparison, compare, comparison_page
from diffnea.report.fit_page import fit, page, save_page
from diffnea.report.picture import picture
from diffnea.report.ranking import Ranking, rank, ranking_page
