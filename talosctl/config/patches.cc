#include "talosctl/config/patches.h"

#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "talosctl/config/config-shape.h"
#include "talosctl/config/patch.h"
#include "talosctl/config/secrets-bundle.h"

namespace talos::talosctl {

namespace {

constexpr size_t kMostPatchBytes = 4u << 20;

// Throws if the argument is the name of a file, which needs an @, or a single word that is neither.
void refuseFileName(kj::StringPtr argument, kj::StringPtr flag) {
  struct stat info;
  if (stat(argument.cStr(), &info) == 0 && S_ISREG(info.st_mode)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("--", flag, ": \"", argument, "\" is a file; use --", flag, " @", argument));
  }
  for (char c : argument) {
    if (c == ':' || c == '{' || c == '[' || c == '\n') return;
  }
  // A template may leave only comments, or nothing.
  if (argument.size() == 0 || argument[0] == '#' || argument == "---") return;
  fail(ErrorKind::kInvalidArgument, kj::str("--", flag, ": \"", argument,
                                            "\" is neither a patch nor a file; use JSON, YAML or "
                                            "@FILE"));
}

}  // namespace

kj::Vector<Patch> readPatches(kj::ArrayPtr<const kj::String> arguments, kj::StringPtr flag) {
  kj::Vector<Patch> patches;
  for (auto& argument : arguments) {
    if (argument.startsWith("@")) {
      auto file = kj::str(argument.slice(1));
      auto text = readFile(file, kMostPatchBytes);
      patches.add(Patch{kj::mv(file), kj::mv(text)});
    } else {
      refuseFileName(argument, flag);
      auto name = arguments.size() == 1 ? kj::str("--", flag)
                                        : kj::str("--", flag, " (no. ", patches.size() + 1, ")");
      patches.add(Patch{kj::mv(name), kj::str(argument)});
    }
  }
  return patches;
}

kj::Vector<Patch> readPatchFiles(kj::ArrayPtr<const kj::String> files) {
  kj::Vector<Patch> patches;
  for (auto& file : files) patches.add(Patch{kj::str(file), readFile(file, kMostPatchBytes)});
  return patches;
}

RolePatches::RolePatches(Invocation& call)
    : all(readPatches(call.list("config-patch"), "config-patch")),
      controlPlane(
          readPatches(call.list("config-patch-control-plane"), "config-patch-control-plane")),
      join(readPatches(call.list("config-patch-join"), "config-patch-join")) {
  auto worker = readPatches(call.list("config-patch-worker"), "config-patch-worker");
  for (auto& patch : worker) join.add(kj::mv(patch));
}

void RolePatches::addFlags(Command& command) {
  for (auto [name, help] :
       {std::pair("config-patch"_kj, "patch for every config, or @FILE; may be repeated"_kj),
        std::pair("config-patch-control-plane"_kj, "the same for control-plane nodes"_kj),
        std::pair("config-patch-join"_kj, "the same for workers"_kj),
        std::pair("config-patch-worker"_kj, "config-patch-join under its later name"_kj)}) {
    command.flag({.name = name, .kind = FlagKind::kTexts, .help = help});
  }
}

void addWarnings(kj::Vector<kj::String>& lines, const Problems& problems) {
  for (auto& warning : config::warningsOf(problems)) {
    bool known = false;
    for (auto& line : lines) known = known || line == warning;
    if (!known) lines.add(kj::mv(warning));
  }
}

kj::String applyPatches(kj::StringPtr document, kj::StringPtr name,
                        kj::ArrayPtr<const Patch> patches, Patched what,
                        kj::Maybe<kj::Vector<kj::String>&> warnings) {
  auto text = kj::str(document);
  for (auto& patch : patches) {
    Problems problems;
    auto patched = applyPatch(text, patch.text, problems,
                              {.document = name,
                               .patch = patch.name,
                               .shapeOf = &shapeOfConfig,
                               .isKey = what == Patched::kGenerated ? &isConfigKey : nullptr});
    zeroize(text);
    KJ_IF_MAYBE (changed, patched) {
      text = kj::mv(*changed);
      KJ_IF_MAYBE (lines, warnings) addWarnings(*lines, problems);
    } else {
      fail(ErrorKind::kInvalidArgument, render(problems));
    }
  }
  return text;
}

}  // namespace talos::talosctl
