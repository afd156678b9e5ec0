// Commands that the documents name and this program does not have yet: each says so, instead of
// being an unknown word or doing half of its work. They are hidden from help and completion. One
// that exists is not absent, so these are added last.
#include "common/base/error.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

struct Absent {
  kj::StringPtr name;
  kj::StringPtr why = ""_kj;  // if there is more to say than that it is not available
};
constexpr Absent kAbsent[] = {
    {"conformance"_kj},
    {"convert-k8s"_kj,
     "it converts control planes that bootkube made on nodes of Talos 0.8, and no node of this "
     "system ever had one"_kj},
    {"dashboard"_kj},
    {"inspect"_kj},
    {"machineconfig"_kj},
    {"pcap"_kj},
    {"recover"_kj}};

kj::Promise<int> runAbsent(Invocation& call) {
  kj::StringPtr why;
  for (auto& absent : kAbsent) {
    if (absent.name == call.command.name) why = absent.why;
  }
  fail(ErrorKind::kUnimplemented,
       kj::str("\"", call.command.path(), "\" is not available in this version of talosctl",
               why.size() > 0 ? ": " : "", why));
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
  for (auto& absent : kAbsent) addAbsent(root, absent.name);
}

}  // namespace talos::talosctl
