"""The three papers: exact solutions with their errors, and limits. No file here knows a simulator."""

from lbcore import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        # Join-Below-Threshold in heavy traffic (paper A)
        "heavy_traffic_limit": "thresholds",
        "pooled_limit": "thresholds",
        "push_share": "thresholds",
        "threshold_price": "thresholds",
        "two_server_law": "two_servers",
        "two_server_jsq": "two_servers",
        "theorem_two_bound": "two_servers",
        # Join-Idle-Queue with general service (paper B)
        "fixed_point": "jiq_fixed_point",
        "cycle_bound": "jiq_fixed_point",
        "workload_tail": "jiq_fixed_point",
        "infinite_server_path": "fluid",
        "fluid_path": "fluid",
        # Join-Shortest-Queue in the Halfin-Whitt regime (paper C)
        "diffusion_law": "diffusion",
        "fall_times": "hitting",
        "excursion_time": "hitting",
        "wall_time": "hitting",
        "finite_law": "jsq_chain",
        "transient_law": "jsq_chain",
        "halfin_whitt_law": "mmn",
        "erlang_wait": "mmn",
    },
)
