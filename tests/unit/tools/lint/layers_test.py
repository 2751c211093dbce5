"""The layer check reports each rule's violation from a made-up dependency listing, and nothing for a clean tree."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tools" / "lint"))
import layers  # noqa: E402

TORCH = ".deps/libtorch/torch/include/ATen/core/Tensor.h"
CAF = "/usr/include/caf/actor_system.hpp"
MSGPACK = "/usr/include/msgpack/v3/unpack.hpp"


def listing(source: str, *headers: str, state: str = "VALID", root: str = "/p") -> str:
    """One entry as ninja prints it: project paths relative to the build folder."""
    lines = [f"x/{source}.o: #deps {1 + len(headers)}, deps mtime 17 ({state})"]
    for path in (source, *headers):
        lines.append("    " + (path if path.startswith("/") else "../../" + path))
    return "\n".join(lines) + "\n\n"


def problems(deps: str, **texts: str) -> list[str]:
    files = {name.replace("__", "/").replace("_hpp", ".hpp").replace("_cpp", ".cpp"): text
             for name, text in texts.items()}
    return layers.check(layers.parse_deps(deps, "/p", "/p/build/dev"), files)


def unit_problems(source: str, *headers: str) -> list[str]:
    """Findings for one unit whose headers contain no #include lines of their own."""
    texts = {path: "" for path in (source, *headers) if not path.startswith(("/", ".deps"))}
    return layers.check(layers.parse_deps(listing(source, *headers), "/p", "/p/build/dev"), texts)


class AllowedIncludes(unittest.TestCase):
    def test_a_clean_unit_of_every_layer_is_not_reported(self):
        clean = [
            ("runtime/base/log.cpp", "runtime/base/log.hpp", "/usr/include/c++/12/string"),
            ("runtime/alignpack/pack.cpp", "runtime/data/task.hpp", "runtime/base/error.hpp"),
            ("runtime/wire/codec.cpp", "runtime/config/schema.hpp", MSGPACK),
            ("runtime/actor/actor.cpp", "runtime/telemetry/metrics.hpp", CAF),
            ("policies/model/rope.cpp", "policies/text/tokenizer.hpp", "runtime/telemetry/metrics.hpp", TORCH),
            ("envs/registry.cpp", "runtime/wire/frame.hpp", "/usr/include/sqlite3.h", MSGPACK),
            ("actors/env_actor.cpp", "runtime/actor/actor.hpp", "envs/registry.hpp", "policies/text/protocol.hpp", MSGPACK),
            ("tools/memopd/main.cpp", "actors/messages.hpp", "/usr/include/CLI/App.hpp"),
            ("tools/bench/pack.cpp", "policies/model/rope.hpp", TORCH),
            ("tests/unit/policies/model/rope_test.cpp", "policies/model/rope.hpp", TORCH),
        ]
        for source, *headers in clean:
            with self.subTest(source):
                self.assertEqual(unit_problems(source, *headers), [])


class ForbiddenLayers(unittest.TestCase):
    def test_each_layer_that_sees_one_above_it_is_reported(self):
        forbidden = [
            ("runtime/base/log.cpp", "runtime/data/task.hpp"),
            ("runtime/data/task.cpp", "runtime/text/unicode.hpp"),
            ("runtime/alignpack/pack.cpp", "runtime/config/schema.hpp"),
            ("runtime/objects/store.cpp", "runtime/collective/collective.hpp"),
            ("runtime/telemetry/metrics.cpp", "runtime/actor/actor.hpp"),
            ("runtime/ledger/writer.cpp", "policies/text/protocol.hpp"),
            ("policies/text/protocol.cpp", "runtime/actor/actor.hpp"),
            ("policies/engine/engine.cpp", "runtime/cluster/agent.hpp"),
            ("policies/training/ppo.cpp", "envs/scoring.hpp"),
            ("envs/scoring.cpp", "runtime/config/schema.hpp"),
            ("envs/scoring.cpp", "runtime/objects/store.hpp"),
            ("envs/scoring.cpp", "policies/text/protocol.hpp"),
            ("actors/env_actor.cpp", "tools/memopd/options.hpp"),
            ("tools/memopd/main.cpp", "tests/support/trajectories.hpp"),
        ]
        for source, header in forbidden:
            with self.subTest(source + " sees " + header):
                found = unit_problems(source, header)
                self.assertEqual(len(found), 1, found)
                self.assertIn("may not include", found[0])

    def test_a_direct_include_is_reported_once_where_it_stands(self):
        found = problems(listing("envs/a.cpp", "policies/text/p.hpp"),
                         envs__a_cpp='#include "policies/text/p.hpp"\n', policies__text__p_hpp="")
        self.assertEqual(found, ["envs/a.cpp includes policies/text/p.hpp: envs may not include policies/text"])

    def test_an_indirect_include_is_reported_with_its_way(self):
        found = problems(listing("envs/a.cpp", "runtime/wire/w.hpp", "runtime/config/c.hpp"),
                         envs__a_cpp='#include "runtime/wire/w.hpp"\n',
                         runtime__wire__w_hpp='#include "runtime/config/c.hpp"\n', runtime__config__c_hpp="")
        self.assertEqual(len(found), 1, found)
        self.assertIn("through runtime/wire/w.hpp > runtime/config/c.hpp", found[0])


class ThirdPartyLibraries(unittest.TestCase):
    def test_each_library_outside_its_layers_is_reported(self):
        forbidden = [
            ("actors/learner_actor.cpp", TORCH),
            ("policies/text/protocol.cpp", TORCH),
            ("tools/memopd/main.cpp", TORCH),
            ("tests/unit/runtime/actor/actor_test.cpp", CAF),
            ("actors/env_actor.cpp", CAF),
            ("runtime/data/task.cpp", MSGPACK),
            ("runtime/wire/codec.cpp", "/usr/include/toml++/toml.h"),
            ("policies/text/protocol.cpp", "/usr/include/unicode/regex.h"),
            ("runtime/objects/store.cpp", "/usr/include/zmq.hpp"),
            ("runtime/wire/codec.cpp", "/usr/include/zstd.h"),
            ("actors/retriever_actor.cpp", "/usr/include/httplib.h"),
            ("actors/retriever_actor.cpp", "/usr/include/sqlite3.h"),
            ("actors/coordinator.cpp", "/usr/include/CLI/App.hpp"),
            ("runtime/base/log.cpp", "/usr/include/fmt/format.h"),
            ("runtime/data/task.cpp", "/usr/include/nlohmann/json.hpp"),
            ("runtime/alignpack/pack.cpp", "/usr/include/xxhash.h"),
            ("runtime/config/load.cpp", "/usr/include/catch2/catch.hpp"),
        ]
        for source, header in forbidden:
            with self.subTest(source + " sees " + header):
                found = unit_problems(source, header)
                self.assertEqual(len(found), 1, found)
                self.assertIn("through another library", found[0])

    def test_an_include_line_of_a_library_that_the_layer_may_only_see_is_reported(self):
        found = problems(listing("actors/a.cpp", MSGPACK), actors__a_cpp="#include <msgpack.hpp>\n")
        self.assertEqual(found, ["actors/a.cpp includes <msgpack.hpp>: msgpack belongs to runtime/wire, tests/runtime/wire"])

    def test_a_public_header_of_policies_that_brings_torch_to_an_actor_is_reported_with_the_header(self):
        found = problems(listing("actors/a.cpp", "policies/engine/e.hpp", TORCH),
                         actors__a_cpp='#include "policies/engine/e.hpp"\n',
                         policies__engine__e_hpp="#include <ATen/core/Tensor.h>\n")
        self.assertEqual(found, ["actors/a.cpp sees LibTorch (through policies/engine/e.hpp): actors may not"])

    def test_an_unknown_system_header_in_a_layer_of_the_standard_library_only_is_reported(self):
        found = problems(listing("runtime/base/a.cpp"), runtime__base__a_cpp="#include <vector>\n#include <boost/any.hpp>\n")
        self.assertEqual(found, ["runtime/base/a.cpp includes <boost/any.hpp>: runtime/base includes the standard library only"])


class WholeUnits(unittest.TestCase):
    def test_torch_and_caf_in_one_unit_are_reported_in_tests_too(self):
        found = unit_problems("tests/integration/loop_test.cpp", TORCH, CAF)
        self.assertIn("tests/integration/loop_test.cpp sees both LibTorch and CAF", found)

    def test_a_source_in_no_target_is_reported(self):
        self.assertEqual(problems("", runtime__base__lost_cpp=""), ["runtime/base/lost.cpp is in no target that was built"])

    def test_outdated_entries_are_not_read(self):
        deps = listing("envs/a.cpp", "policies/text/p.hpp", state="STALE") + listing("envs/a.cpp")
        self.assertEqual(problems(deps, envs__a_cpp="", policies__text__p_hpp=""), [])

    def test_the_fourth_unit_of_one_cause_is_only_counted(self):
        texts = {"policies/text/p.hpp": "", "envs/e.hpp": '#include "policies/text/p.hpp"\n'}
        deps = ""
        for name in "abcd":
            texts[f"envs/{name}.cpp"] = '#include "envs/e.hpp"\n'
            deps += listing(f"envs/{name}.cpp", "envs/e.hpp", "policies/text/p.hpp")
        found = layers.check(layers.parse_deps(deps, "/p", "/p/build/dev"), texts)
        self.assertEqual(sum("sees policies/text/p.hpp" in line for line in found), 3)
        self.assertEqual(sum(line.startswith("1 more units") for line in found), 1)


if __name__ == "__main__":
    unittest.main()
