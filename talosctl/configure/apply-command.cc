// apply-config, apply
#include <fcntl.h>
#include <kj/debug.h>
#include <strings.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/config/config-resource.h"
#include "talosctl/config/patches.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/configure-commands.h"

namespace talos::talosctl {

namespace {

constexpr size_t kMostConfigBytes = 4u << 20;  // more than any parser accepts

kj::Promise<int> runApply(Invocation& call) {
  for (auto& argument : call.arguments) {
    if (strcasecmp(argument.cStr(), "machineconfig") != 0 &&
        strcasecmp(argument.cStr(), "config") != 0) {
      failUsage(kj::str("cannot apply \"", argument, "\"; use \"machineconfig\""));
    }
  }
  auto settings = applySettings(call);
  auto document = co_await readFileOrInput(call.deps, call.text("file"), kMostConfigBytes);
  KJ_DEFER(zeroize(document));
  auto file = nameOfInput(call.text("file"));
  KJ_IF_MAYBE (config, configInResource(document, file)) {
    zeroize(document);
    document = kj::mv(*config);
  }
  auto patches = readPatches(call.list("config-patch"), "config-patch");
  if (patches.size() > 0) {
    kj::Vector<kj::String> warnings;
    auto patched = applyPatches(document, file, patches, Patched::kConfig, warnings);
    printWarnings(call, warnings);
    zeroize(document);
    document = kj::mv(patched);
  }
  KJ_IF_MAYBE (mistakes, mistakesOf(document, file)) {
    fail(ErrorKind::kInvalidArgument, *mistakes);
  }
  auto session = co_await openSession(call);
  auto parcels = KJ_MAP(node, session->client.nodes()) {
    return Parcel{node, document};
  };
  co_return co_await applyAll(call, *session, kj::mv(parcels), settings);
}

void declare(Command& command) {
  command.flag(
      {.name = "file",
       .letter = "f",
       .kind = FlagKind::kText,
       .help = "file with the machine config, or with what \"get mc -o yaml\" printed, or - for "
               "standard input",
       .required = true});
  command.flag({.name = "config-patch",
                .letter = "p",
                .kind = FlagKind::kTexts,
                .help = "patch for the config before it is sent, or @FILE; may be repeated"});
  addInsecureFlags(command);
  addApplyFlags(command);
  command.flag({.name = "no-reboot", .help = "the same as --on-reboot", .hidden = true});
  command.details =
      "The node validates the whole config before it changes anything, then reboots into it "
      "unless --mode says otherwise.";
  command.run = runApply;
}

}  // namespace

void addApplyCommands(Command& root) {
  declare(root.add("apply-config", "Apply a machine config to nodes"));
  auto& apply = root.add("apply", "Same as apply-config");
  apply.arguments = "[machineconfig]";
  apply.most = 1;
  apply.argumentChoices = {{"machineconfig", "config"}};
  declare(apply);
}

}  // namespace talos::talosctl
