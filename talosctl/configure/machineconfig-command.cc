// machineconfig gen, machineconfig patch: machine configs as files, without a node.
#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/config/patches.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/configure-commands.h"

namespace talos::talosctl {

namespace {

constexpr size_t kMostPatchedBytes = 4u << 20;  // more than any parser accepts

kj::Promise<int> runPatchFile(Invocation& call) {
  auto place = call.given("output") ? call.text("output") : "-"_kj;
  if (place.size() == 0) fail(ErrorKind::kInvalidArgument, "--output must not be empty");
  auto patches = readPatches(call.list("patch"), "patch");
  auto document = co_await readFileOrInput(call.deps, call.arguments[0], kMostPatchedBytes);
  KJ_DEFER(zeroize(document));
  kj::Vector<kj::String> warnings;
  auto patched =
      applyPatches(document, nameOfInput(call.arguments[0]), patches, Patched::kConfig, warnings);
  KJ_DEFER(zeroize(patched));
  printWarnings(call, warnings);
  requireGood(call, patched, "the patched config");
  if (place == "-") {
    call.outBytes(patched);
  } else {
    writePrivateFile(place, patched);
    call.wrote(place);
  }
  co_return 0;
}

}  // namespace

void addMachineConfigCommands(Command& root) {
  auto& group = root.add("machineconfig", "Generate and patch machine configs as files");
  group.aliases = {"mc"};
  auto& gen = group.add("gen", "Generate machine configs (same as gen config)");
  gen.flag(forceFlag());
  declareGenConfig(gen);
  auto& patch = group.add("patch", "Patch a machine config in a file");
  patch.arguments = "<file>";
  patch.least = patch.most = 1;
  patch.details =
      "A patch is a JSON Patch (a list of operations) or a part of a config to merge into it. "
      "The file is - for standard input. Nothing is written if the result is not valid.";
  patch.flag({.name = "patch",
              .letter = "p",
              .kind = FlagKind::kTexts,
              .help = "the patch, or @FILE; may be repeated",
              .required = true});
  patch.flag({.name = "output",
              .letter = "o",
              .kind = FlagKind::kText,
              .help = "file to write to (default: standard output)"});
  patch.run = runPatchFile;
}

}  // namespace talos::talosctl
