"""Documents for the tests of this folder."""

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def with_profile(text: str) -> str:
    """A document whose only profile is given, as YAML in one line."""
    return f"{HEADER}profiles:\n- {text}\n"


def with_args(plugin: str, args: str) -> str:
    """A document that gives arguments to one plugin."""
    return with_profile(f"{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}")
