// Commands that the documents name and this program does not have yet: each says so, instead of
// being an unknown word or doing half of its work. They are hidden from help and completion. One
// that exists is not absent, so these are added last.
#include "common/base/error.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

kj::Promise<int> runAbsent(Invocation& call) {
  fail(ErrorKind::kUnimplemented,
       kj::str("\"", call.command.path(), "\" is not available in this version of talosctl"));
}

void addAbsent(Command& parent, kj::StringPtr name, std::vector<kj::StringPtr> aliases = {}) {
  for (auto& there : parent.children) {
    if (there->name == name) return;
  }
  auto& command = parent.add(name, "Not available in this version");
  command.aliases = kj::mv(aliases);
  command.hidden = command.anyFlags = true;
  command.most = kj::maxValue;
  command.run = runAbsent;
}

}  // namespace

void addAbsentCommands(Command& root) {
  for (kj::StringPtr name : {"conformance", "convert-k8s", "dashboard", "inspect", "machineconfig",
                             "pcap", "recover", "upgrade-k8s"}) {
    addAbsent(root, name);
  }
}

}  // namespace talos::talosctl
