"""``config.toml``, environment and command line → one frozen ``Config``.

Later sources win: defaults, the file, ``SPARLANCE_SECTION_KEY`` variables, the command line. Nothing is guessed: an unknown
key, a wrong type or a value out of range raises ConfigError with the dotted key, what was found and what is accepted.

``config.toml`` in the root of the repository documents every key with its default, unit and reason; a test keeps the two equal.
"""

from proxy.config.converting import describe
from proxy.config.loading import load_config
from proxy.config.sections import (
    DEFAULT_DATASET,
    OF_A_DATASET,
    SECRETS,
    SECTIONS,
    AccessSettings,
    BackendSettings,
    CacheSettings,
    Config,
    IndexSettings,
    LimitSettings,
    LoadSettings,
    LogSettings,
    NlSettings,
    PluginSettings,
    PolicySettings,
    Secret,
    ServerSettings,
    SharedSettings,
    TracingSettings,
    ValidationSettings,
    keys,
)
from proxy.config.sources import CONFIG_VARIABLE, PREFIX, holds_password, variable_of

__all__ = [
    "CONFIG_VARIABLE",
    "DEFAULT_DATASET",
    "OF_A_DATASET",
    "PREFIX",
    "SECRETS",
    "SECTIONS",
    "AccessSettings",
    "BackendSettings",
    "CacheSettings",
    "Config",
    "IndexSettings",
    "LimitSettings",
    "LoadSettings",
    "LogSettings",
    "NlSettings",
    "PluginSettings",
    "PolicySettings",
    "Secret",
    "ServerSettings",
    "SharedSettings",
    "TracingSettings",
    "ValidationSettings",
    "describe",
    "holds_password",
    "keys",
    "load_config",
    "variable_of",
]
