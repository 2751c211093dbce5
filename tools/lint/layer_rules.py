"""Who may include whom: the table of the layers as data, and the questions that the layer check asks of it.

A folder of the project is a layer ("runtime/wire", "policies/text", "actors", "tools/bench"). A third-party library is
known by where its headers lie. `owners` may write its #include lines; whoever may include the layer `seen_through` may
see its headers.
"""

import re
from dataclasses import dataclass

RUNTIME = ("base", "text", "data", "alignpack", "config", "wire", "transport", "objects", "collective", "ledger",
           "telemetry", "actor", "cluster")
# These read the standard library and one another, in that order.
STANDARD_ONLY = ("runtime/base", "runtime/data", "runtime/alignpack")
POLICIES_TORCH = ("policies/model", "policies/engine", "policies/training")
ENVS_RUNTIME = ("runtime/base", "runtime/text", "runtime/data", "runtime/wire", "runtime/transport")
TOP = ("runtime", "policies", "envs", "actors", "tools", "tests")


def layer_of(path: str) -> str:
    """The layer of a project path; tests belong to the layer "tests/<what they mirror>"."""
    parts = path.split("/")
    if parts[0] == "tests":
        mirrored = parts[2:] if parts[1:2] == ["unit"] else []
        return "tests/" + layer_of("/".join(mirrored)) if len(mirrored) > 1 else "tests"
    if parts[0] in ("runtime", "policies", "tools") and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def within(layer: str, prefixes: tuple[str, ...]) -> bool:
    return any(layer == prefix or layer.startswith(prefix + "/") for prefix in prefixes)


def may_include(layer: str, other: str) -> bool:
    """Whether files of `layer` may see files of the layer `other`."""
    if layer == other or layer.startswith("tests"):
        return True
    if other.startswith("tests"):
        return False
    top, _, name = layer.partition("/")
    other_top, _, other_name = other.partition("/")
    if top == "tools":
        return True
    if other_top == "tools":
        return False
    if layer in STANDARD_ONLY:
        return other in STANDARD_ONLY[:STANDARD_ONLY.index(layer)]
    if top == "runtime":
        return (other_top == "runtime" and name in RUNTIME and other_name in RUNTIME
                and RUNTIME.index(other_name) < RUNTIME.index(name))
    if top == "policies":
        return other_top == "policies" or (other_top == "runtime" and other_name not in ("actor", "cluster"))
    if top == "envs":
        return other_top == "envs" or other in ENVS_RUNTIME
    if top == "actors":
        return other_top in ("runtime", "policies", "envs")
    return False


@dataclass(frozen=True)
class ThirdParty:
    name: str
    header: re.Pattern  # of the name inside #include <..>
    path: re.Pattern  # of a path in a dependency file
    owners: tuple[str, ...]  # layers whose files may include it
    seen_through: str = ""  # layer whose public headers show it
    except_layers: tuple[str, ...] = ()


def _library(name, header, owners, seen_through="", path=None, except_layers=()):
    path = path or r"/include/(?:[^/]+-linux-gnu/)?(?:" + header + ")"
    return ThirdParty(name, re.compile("^(?:" + header + ")"), re.compile(path), owners, seen_through,
                      except_layers)


LIBRARIES = (
    _library("LibTorch", r"(?:torch|ATen|c10|caffe2)/", POLICIES_TORCH + ("tests", "tools/bench"),
             path=r"/torch/include/", except_layers=("tests/policies/text", "tests/runtime", "tests/envs")),
    _library("CAF", r"caf/", ("runtime/actor",)),
    _library("msgpack", r"msgpack(?:\.hpp|/)", ("runtime/wire", "tests/runtime/wire"),
             seen_through="runtime/wire"),
    _library("toml++", r"toml\+\+/", ("runtime/config", "tests/runtime/config")),
    _library("ICU", r"unicode/", ("runtime/text", "tests/runtime/text")),
    _library("ZeroMQ", r"zmq(?:_addon)?\.hp?p?", ("runtime/transport", "tests/runtime/transport")),
    _library("zstd", r"(?:zstd|zdict)", ("runtime/ledger", "tests/runtime/ledger")),
    _library("cpp-httplib", r"httplib\.h", ("envs", "runtime/telemetry", "tools", "tests")),
    _library("SQLite", r"sqlite3", ("envs", "tests/envs")),
    _library("CLI11", r"CLI/", ("tools", "tests/tools")),
    _library("Catch2", r"catch2/", ("tests",)),
    _library("fmt", r"fmt/", TOP, except_layers=STANDARD_ONLY),
    _library("nlohmann-json", r"nlohmann/", TOP, except_layers=STANDARD_ONLY),
    _library("xxHash", r"xxh(?:ash|3)", TOP, except_layers=STANDARD_ONLY),
    _library("OpenSSL", r"openssl/", TOP, except_layers=STANDARD_ONLY),
)

STANDARD_HEADER = re.compile(r"^(?:[a-z_]+|(?:sys/)?(?:epoll|eventfd|fcntl|file|mman|mount|prctl|random|resource|sched|"
                             r"signal|socket|stat|statvfs|syscall|sysinfo|time|types|uio|un|unistd|utsname|wait)\.h)$")


def library_of_header(name: str) -> ThirdParty | None:
    return next((library for library in LIBRARIES if library.header.search(name)), None)


def library_of_path(path: str) -> ThirdParty | None:
    return next((library for library in LIBRARIES if library.path.search(path)), None)


def may_own(layer: str, library: ThirdParty) -> bool:
    return within(layer, library.owners) and not within(layer, library.except_layers)


def may_see(layer: str, library: ThirdParty) -> bool:
    if within(layer, library.except_layers):
        return False
    return within(layer, library.owners) or (library.seen_through != "" and may_include(layer, library.seen_through))
