"""Reports: records and fits as one self-contained HTML page."""

from diffnea.report.pages.benchmark_page import benchmark
from diffnea.report.pages.check_page import check
from diffnea.report.pages.comparison import Comparison, compare, comparison_page
from diffnea.report.pages.fit_page import fit, page, save_page
from diffnea.report.pages.ranking import Ranking, rank, ranking_page
from diffnea.report.picture import picture
