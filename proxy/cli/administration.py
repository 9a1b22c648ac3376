"""Arguments of ``config``, ``key`` and ``plugin``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from proxy.cli.flags import actions, command, config_of, configured, count
from proxy.commands import DONE, REFUSED


def add(commands: Any) -> None:
    """Add them to *commands*."""
    config = actions(commands, "config", "Check or show the settings.")
    for name, run, what in (
        ("check", _config_check, "Tell whether every setting can be used, and load the plugins; starts nothing."),
        ("show", _config_show, "Print the settings in effect as TOML, secrets left out."),
    ):
        configured(command(config, name, run, what, f"sparlance config {name} --config config.toml"))

    _keys(actions(commands, "key", "Make and revoke API keys."))
    plugin = actions(commands, "plugin", "What can be plugged in.")
    listing = command(
        plugin, "list", _plugin_list, "List the plugins in the folder and which are on.", "sparlance plugin list"
    )
    configured(listing)
    new = command(plugin, "new", _plugin_new, "Begin a plugin in the folder of plugins.", "sparlance plugin new my_guard")
    new.add_argument("name", metavar="NAME", help="a name as of a Python module")
    configured(new)
    trial = command(
        plugin,
        "test",
        _plugin_test,
        "Send a plugin, with its options, every kind of request on a graph of its own. Exit code 1 if a hook fails.",
        "sparlance plugin test plugins/my_guard.py",
    )
    trial.add_argument("file", metavar="FILE", type=Path, help="the plugin")
    configured(trial)


def _keys(actions: Any) -> None:
    new = command(
        actions,
        "new",
        _key_new,
        "Make an API key and print it, once; its hash is kept in access.keys_file.",
        "sparlance key new wiki --role query --role nl\n  sparlance key new prometheus --role admin --days 365",
    )
    new.add_argument("name", metavar="NAME", help="who it is for; stands in lists, never in a request")
    roles = ("query", "nl", "update", "admin")
    new.add_argument("--role", action="append", choices=roles, help="what it may do; may be repeated; default query and nl")
    new.add_argument("--days", metavar="N", type=count, help="how long it is valid; default: until it is revoked")
    for limit in ("--requests-per-minute", "--query-seconds-per-minute"):
        new.add_argument(limit, metavar="N", type=count, default=0, help="a limit of its own; default: as for everybody")
    revoke = command(
        actions, "revoke", _key_revoke, "Make a key worthless; servers notice within a second.", "sparlance key revoke wiki"
    )
    revoke.add_argument("name", metavar="NAME", help="its name or id")
    listing = command(actions, "list", _key_list, "List the keys; they themselves are not kept.", "sparlance key list")
    for parser in (new, revoke, listing):
        configured(parser)


def _config_check(parsed: argparse.Namespace) -> int:
    config = config_of(parsed)
    if config.plugins.enabled or config.plugins.options:
        from proxy.plugin.loading import load_plugins

        load_plugins(config.plugins.directory, enabled=config.plugins.enabled, options=config.plugins.options)
    print(f"{config.path or 'defaults'}: every setting can be used")
    return DONE


def _config_show(parsed: argparse.Namespace) -> int:
    from proxy.commands.settings import config_as_toml

    print(config_as_toml(config_of(parsed)), end="")
    return DONE


def _key_new(parsed: argparse.Namespace) -> int:
    from proxy.access.keys import read_roles
    from proxy.keys import new_key

    limits = {"requests_per_minute": parsed.requests_per_minute, "query_seconds_per_minute": parsed.query_seconds_per_minute}
    token, key = new_key(config_of(parsed), parsed.name, read_roles(parsed.role or ["query", "nl"]), days=parsed.days, **limits)
    print(token)
    until = f", valid until {key.expires}" if key.expires else ""
    print(f"key {key.id} ({', '.join(sorted(key.roles))}{until}): shown this once, only its hash is kept", file=sys.stderr)
    return DONE


def _key_list(parsed: argparse.Namespace) -> int:
    from proxy.keys import list_keys

    for key in list_keys(config_of(parsed)):
        state = f"revoked {key.revoked}" if key.revoked else (f"until {key.expires}" if key.expires else "valid")
        print(f"{key.id:<14} {key.name:<24} {','.join(sorted(key.roles)):<24} {key.created:<21} {state}")
    return DONE


def _key_revoke(parsed: argparse.Namespace) -> int:
    from proxy.keys import revoke_key

    key = revoke_key(config_of(parsed), parsed.name)
    print(f"key {key.id} ({key.name}) is revoked; servers notice within a second")
    return DONE


def _plugin_list(parsed: argparse.Namespace) -> int:
    from proxy.plugin.loading import available

    plugins = config_of(parsed).plugins
    for name, summary in available(plugins.directory).items():
        print(f"{'on ' if name in plugins.enabled else 'off'}  {name:<20} {summary}")
    return DONE


def _plugin_new(parsed: argparse.Namespace) -> int:
    from proxy.trial import new_plugin

    file = new_plugin(config_of(parsed), parsed.name)
    print(f'{file} says which query form was asked; change it (docs/plugins.md), then try it:\n  sparlance plugin test {file}')
    print(f'and put "{parsed.name}" into enabled under [plugins]')
    return DONE


def _plugin_test(parsed: argparse.Namespace) -> int:
    from proxy.trial import try_plugin

    return DONE if try_plugin(config_of(parsed), parsed.file) else REFUSED
