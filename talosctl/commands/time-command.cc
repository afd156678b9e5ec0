// time
#include "talosctl/cli/cli-text.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using Times = rpc::Machine::TimeResults;

// Includes the fraction, because users compare clocks.
kj::String exactTime(int64_t nanoseconds) {
  if (nanoseconds < 0) return kj::str("before 1970");
  constexpr uint64_t kSecond = 1'000'000'000;
  auto whole = rfc3339(static_cast<uint64_t>(nanoseconds));  // …:11Z
  auto fraction = kj::str(kSecond + static_cast<uint64_t>(nanoseconds) % kSecond);
  return kj::str(whole.slice(0, whole.size() - 1), ".", fraction.slice(1), "Z");
}

kj::Promise<int> runTime(Invocation& call) {
  return tabulate<Times>(
      call,
      [server = kj::str(call.text("check"))](rpc::Node::Client node) {
        auto request = node.machineRequest().send().getMachine().timeRequest();
        request.setServer(server);
        return request.send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Times>> replies) { return renderTimes(replies); });
}

}  // namespace

kj::String renderTimes(kj::ArrayPtr<const Reply<Times>> replies) {
  Table table({"NODE", "NTP-SERVER", "NODE-TIME", "NTP-SERVER-TIME"});
  for (auto& r : replies) {
    auto time = r.value.getAnswer();
    table.add(r.node, time.getServer(), exactTime(time.getLocal()), exactTime(time.getRemote()));
  }
  return table.render();
}

void addTimeCommands(Command& root) {
  auto& time = root.add("time", "Compare the clocks of nodes with an NTP server");
  time.flag({.name = "check",
             .letter = "c",
             .kind = FlagKind::kText,
             .help = "NTP server to compare with, instead of the one that the node follows"});
  addOutputFlag(time);
  time.run = runTime;
}

}  // namespace talos::talosctl
