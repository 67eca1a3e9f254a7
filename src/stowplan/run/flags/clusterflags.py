"""Flags about the API server and about who schedules."""

from typing import Final

from stowplan.gocompat.durations import Duration
from stowplan.run.flags.flag import Flag, Group
from stowplan.run.flags.kinds import BOOL, DURATION, FLOAT32, INT32, STRING

_FILE_WINS: Final = "Not looked at if there is a --config."

DEPRECATED: Final = Group(
    "deprecated",
    (
        Flag("profiling", BOOL, True, f"Serve profiles under /debug/pprof/. {_FILE_WINS}"),
        Flag(
            "contention-profiling",
            BOOL,
            True,
            f"Profile waiting for locks as well. {_FILE_WINS}",
            ignored="one thread does the work and never waits for a lock",
        ),
        Flag("kubeconfig", STRING, "", f"Where the API server is and how to get in. {_FILE_WINS}"),
        Flag(
            "kube-api-content-type",
            STRING,
            "application/vnd.kubernetes.protobuf",
            f"Format of what is sent to the API server; JSON is what is spoken in any case. {_FILE_WINS}",
        ),
        Flag("kube-api-qps", FLOAT32, 50.0, f"Requests per second to the API server. {_FILE_WINS}"),
        Flag(
            "kube-api-burst",
            INT32,
            100,
            f"Requests that may be sent at once after a quiet time. {_FILE_WINS}",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            Duration.of_seconds(300),
            "Longest time a pod that found no node waits for an event before it is tried again anyway.",
        ),
    ),
)

LEADER_ELECTION: Final = Group(
    "leader election",
    (
        Flag(
            "leader-elect",
            BOOL,
            True,
            "Schedule only while holding the lease, so that several instances can run.",
        ),
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            Duration.of_seconds(15),
            "How long others wait after the last renewal they saw before they take the lease.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            Duration.of_seconds(10),
            "How long the holder tries to renew before it gives up. Less than the lease duration.",
        ),
        Flag(
            "leader-elect-resource-lock",
            STRING,
            "leases",
            "Kind of object the holder is noted in: leases, or as in earlier releases endpoints, configmaps, "
            "endpointsleases or configmapsleases.",
        ),
        Flag("leader-elect-resource-name", STRING, "kube-scheduler", "Name of that object."),
        Flag("leader-elect-resource-namespace", STRING, "kube-system", "Namespace of that object."),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            Duration.of_seconds(2),
            "Time between two tries to take or renew the lease.",
        ),
    ),
)
