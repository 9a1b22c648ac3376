"""All sources together, later ones over earlier ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from proxy.config.converting import convert
from proxy.config.sections import DEFAULT_DATASET, SECTIONS, Config
from proxy.config.sources import from_environment, from_file, read, resolve, split_variables, tables_of_datasets
from proxy.config.together import check_together, require_nothing_for_all
from proxy.errors import ConfigError


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    name: str = DEFAULT_DATASET,
) -> Config:
    """Read, merge and check the settings.

    Args:
        path: a TOML file; None: no file. Relative paths *in the file* are relative to its folder.
        environ: as ``os.environ``; variables that name no section are other people's.
        overrides: dotted key → value, what the command line said; relative paths are relative to the working directory. A
            backend among them replaces all that the file serves, its datasets too.
        name: of the dataset, where the file names none.
    Raises:
        ConfigError: the file cannot be read, or a setting cannot be used.
    """
    file = None if path is None else Path(path)
    tables = {} if file is None else read(file)
    of_datasets = tables_of_datasets(tables.pop("datasets", {}))
    variables = split_variables(environ or {}, of_datasets)
    values, options = from_file(tables)
    if file is not None:
        resolve(values, file.parent)
    given = from_environment(variables[""])
    given |= {key: convert(key, value, source="the command line") for key, value in (overrides or {}).items()}
    base = _assemble(values | given, options, file, name)
    if not of_datasets or {"backend.url", "backend.load"} & (overrides or {}).keys():
        check_together(base)
        return base
    require_nothing_for_all(base)
    datasets = {}
    for name, own_tables in of_datasets.items():
        with _naming(f"datasets.{name}"):
            own, _ = from_file(own_tables)
            if file is not None:
                resolve(own, file.parent)
            own = values | own | given | from_environment(variables[name])
            datasets[name] = _assemble(own, options, file, name)
            check_together(datasets[name])
            if not (datasets[name].backend.url or datasets[name].backend.load):
                raise ConfigError("backend.url", "not set, nor backend.load; accepted: each dataset has a server or files")
    return msgspec.structs.replace(base, datasets=datasets)


def _assemble(values: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]], file: Path | None, name: str) -> Config:
    sections: dict[str, Any] = {}
    for section, struct in SECTIONS.items():
        own = {key.partition(".")[2]: value for key, value in values.items() if key.partition(".")[0] == section}
        if section == "plugins":
            own["options"] = options
        sections[section] = struct(**own)
    return Config(**sections, path=file, name=name)


@contextmanager
def _naming(place: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}.{error.key}", error.reason) from error
