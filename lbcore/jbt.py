"""Paper A: Join-Below-Threshold in heavy traffic: limits, and the exact law of two servers."""

from lbcore import policies
from lbcore.thresholds import heavy_traffic_limit as heavy_traffic_limit
from lbcore.thresholds import pooled_limit as pooled_limit
from lbcore.thresholds import push_share as push_share
from lbcore.thresholds import threshold_price as threshold_price
from lbcore.two_servers import theorem_two_bound as theorem_two_bound
from lbcore.two_servers import two_server_jsq as two_server_jsq
from lbcore.two_servers import two_server_law as two_server_law

policies.share_name(__name__)
