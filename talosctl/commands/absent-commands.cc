// Commands of the documents that this program does not have: each reports that, and what to do
// instead, instead of being an unknown word or doing half of its work. They are hidden from help
// and completion.
#include "common/base/error.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

struct Absent {
  kj::StringPtr name, instead;
};

constexpr Absent kAbsent[] = {
    {"conformance"_kj, "run Hydrophone or Sonobuoy with the kubeconfig"_kj},
    {"convert-k8s"_kj,
     "it converts control planes that bootkube made on nodes of Talos 0.8, and no node of this "
     "system ever had one"_kj},
    {"dashboard"_kj, "use \"processes --watch\", \"memory\" and \"stats\""_kj},
    {"inject"_kj, "use \"config new\" for a client configuration with fewer rights"_kj},
    {"recover"_kj, "use \"bootstrap --recover-from\""_kj},
};

kj::Promise<int> runAbsent(Invocation& call) {
  for (auto& absent : kAbsent) {
    if (absent.name != call.command.name) continue;
    fail(ErrorKind::kUnimplemented,
         kj::str("\"", call.command.path(),
                 "\" is not available in this version of talosctl: ", absent.instead));
  }
  KJ_UNREACHABLE;
}

}  // namespace

void addAbsentCommands(Command& root) {
  for (auto& absent : kAbsent) {
    if (root.child(absent.name) != nullptr) continue;
    auto& command = root.add(absent.name, "Not available in this version");
    command.hidden = command.anyFlags = true;
    command.most = kj::maxValue;
    command.run = runAbsent;
  }
}

}  // namespace talos::talosctl
