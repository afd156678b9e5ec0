// Patches of machine configs from the command line: `-p '[…]'`, `-p @file`, `--patch-file`.
#pragma once

#include "talosctl/cli/command.h"

namespace talos::talosctl {

struct Patch {
  kj::String name;  // for problems: "--patch", or the file's
  kj::String text;
};

// `arguments`: texts, or file names behind '@'. `flag` names them in problems.
kj::Vector<Patch> readPatches(kj::ArrayPtr<const kj::String> arguments, kj::StringPtr flag);
kj::Vector<Patch> readPatchFiles(kj::ArrayPtr<const kj::String> files);

// Those of the flags --config-patch, --config-patch-control-plane and --config-patch-join (or
// --config-patch-worker), for the configs of a whole cluster.
struct RolePatches {
  kj::Vector<Patch> all, controlPlane, join;
  explicit RolePatches(Invocation& call);
  static void addFlags(Command& command);
};

// A config that was generated just now leaves out what has its default: a JSON Patch may replace
// that. In another one it replaces only what is there.
enum class Patched { kConfig, kGenerated };

// One after the other. Throws InvalidArgument with every problem of the first that fails.
kj::String applyPatches(kj::StringPtr document, kj::StringPtr name,
                        kj::ArrayPtr<const Patch> patches, Patched what = Patched::kConfig);

}  // namespace talos::talosctl
