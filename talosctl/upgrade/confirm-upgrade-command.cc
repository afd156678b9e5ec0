// confirm-upgrade
#include "common/text/foreign-text.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/upgrade/upgrade-commands.h"

namespace talos::talosctl {

namespace {

using rpc::Upgrades;

// The write to disk, and the health check of a node with etcd, may each take seconds.
constexpr kj::Duration kConfirmation = 1 * kj::MINUTES;

kj::Promise<int> runConfirm(Invocation& call) {
  auto session = co_await openSession(call);
  auto answers = co_await askAll<Upgrades::ConfirmResults>(*session, [](rpc::Node::Client node) {
    return node.upgradesRequest().send().getUpgrades().confirmRequest().send();
  });
  bool json = formatOf(call) == Format::kJson;
  for (auto& answer : answers.good) {
    auto lacked = answer.value.getLacked();
    if (json) {
      auto text = jsonString(lacked);
      call.out(jsonDone(answer.node, kj::str(",\"lacked\":", text)));
    }
    call.err(kj::str(printableText(kj::str(answer.node, ": confirmed",
                                           lacked.size() > 0 ? ", although: " : "", lacked)),
                     "\n"));
  }
  if (json) {
    for (auto& failure : answers.failures) call.out(jsonFailure(failure, 0));
  }
  co_return conclude(call, answers.failures, answers.good.size(), Partial::kIsFailure);
}

}  // namespace

void addConfirmUpgradeCommand(Command& root) {
  auto& confirm = root.add("confirm-upgrade", "Keep the system that is on trial after an upgrade");
  confirm.details =
      "A system on trial is confirmed by itself when it is healthy. If it waits for other nodes, "
      "or for something that is meant to be so, this keeps it as it is, and the node no longer "
      "reverts to the old system by itself. Prints what it lacked. See talosctl get upgradestatus.";
  addStreamOutputFlag(confirm);
  confirm.timeout = kConfirmation;
  confirm.run = runConfirm;
}

}  // namespace talos::talosctl
