// Commands of the documents that this program lacks. Each reports that it is missing and what to
// use instead; it is neither an unknown word nor a half-done command. They are hidden from help and
// completion.
#include <kj/debug.h>

#include "common/base/error.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

struct Absent {
  kj::StringPtr name, instead;
};

constexpr Absent kAbsent[] = {
    {"config remove"_kj, "delete the context in the file; \"config contexts\" lists them"_kj},
    {"conformance"_kj, "run Hydrophone or Sonobuoy with the kubeconfig"_kj},
    {"gen secureboot"_kj, "no image is signed for secure boot"_kj},
    {"image cache-create"_kj,
     "nodes have no image cache; use a registry that mirrors, with machine.registries.mirrors"_kj},
    {"image source-bundle"_kj, "use \"image default\" and a tool that copies images"_kj},
    {"image k8s-bundle"_kj, "use \"image default\" and a tool that copies images"_kj},
    {"recover"_kj, "use \"bootstrap --recover-from\""_kj},
    {"wipe"_kj, "\"reset --system-labels-to-wipe\" erases partitions of the system disk"_kj},
};

kj::Promise<int> runAbsent(Invocation& call) {
  for (auto& absent : kAbsent) {
    if (!kj::str(call.command.path(), " ").endsWith(kj::str(" ", absent.name, " "))) continue;
    fail(ErrorKind::kUnimplemented,
         kj::str("\"", call.command.path(),
                 "\" is not available in this version of talosctl: ", absent.instead));
  }
  KJ_UNREACHABLE;
}

}  // namespace

void addAbsentCommands(Command& root) {
  refuseFlags(root);
  for (auto& absent : kAbsent) {
    auto blank = absent.name.findLast(' ');
    auto group = kj::heapString(absent.name.slice(0, blank.orDefault(0)));
    auto name = blank == nullptr ? absent.name : absent.name.slice(KJ_ASSERT_NONNULL(blank) + 1);
    KJ_IF_MAYBE (parent, commandAt(root, group)) {
      if (parent->child(name) != nullptr) continue;
      auto& command = parent->add(name, "Not available in this version");
      command.hidden = command.anyFlags = true;
      command.most = kj::maxValue;
      command.run = runAbsent;
    }
  }
}

}  // namespace talos::talosctl
