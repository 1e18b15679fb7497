"""How the stack of a chaos run is set up."""

CLUSTER = "chaos"
APPLICATION = "chaos-processor"
SINK_GROUP = "gpuledger-sink"
WINDOW_S = 2  # many windows in a short run
SILENCE_S = 3  # of a node: some restarts of an agent are longer, some shorter
SESSION_S = 6  # the broker's lower limit: a frozen member is given up soon
PARTITIONS = 2
HISTORY_STEP = 5  # offsets of gpu.progress that a new owner knows at first; the rest is loaded later
