"""Paper C: JSQ in the Halfin-Whitt regime: the diffusion's exact law, and the chain of N servers."""

from lbcore import policies
from lbcore.diffusion import diffusion_law as diffusion_law
from lbcore.jsq_chain import finite_law as finite_law
from lbcore.jsq_chain import transient_law as transient_law

policies.share_name(__name__)
