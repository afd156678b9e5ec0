// Patches of machine configs from the command line: `-p '[…]'`, `-p @file`, `--patch-file`.
#pragma once

#include "common/base/problem.h"
#include "talosctl/cli/command.h"

namespace talos::talosctl {

struct Patch {
  kj::String name;  // name in problems: "--patch", or the name of the file
  kj::String text;
};

// `arguments`: texts, or file names after '@'. `flag` names them in problems.
kj::Vector<Patch> readPatches(kj::ArrayPtr<const kj::String> arguments, kj::StringPtr flag);
kj::Vector<Patch> readPatchFiles(kj::ArrayPtr<const kj::String> files);

// The patches of the flags --config-patch, --config-patch-control-plane and --config-patch-join (or
// --config-patch-worker), for the configs of a whole cluster.
struct RolePatches {
  kj::Vector<Patch> all, controlPlane, join;
  explicit RolePatches(Invocation& call);
  static void addFlags(Command& command);
};

// A newly generated config leaves out keys with their defaults. A JSON Patch may replace these
// keys, and a patch that removes them causes a warning. In any other config, the keys must exist.
enum class Patched { kConfig, kGenerated };

// Adds the warnings that `lines` lacks.
void addWarnings(kj::Vector<kj::String>& lines, const Problems& problems);

// Applies the patches in order. Throws InvalidArgument with every problem of the first patch that
// fails. `warnings` receives the other problems, each once.
kj::String applyPatches(kj::StringPtr document, kj::StringPtr name,
                        kj::ArrayPtr<const Patch> patches, Patched what = Patched::kConfig,
                        kj::Maybe<kj::Vector<kj::String>&> warnings = nullptr);

}  // namespace talos::talosctl
