// cluster recover
#include "talosctl/recover/recovery-command.h"

#include "common/base/error.h"
#include "common/etcd-data/etcd-database.h"
#include "common/etcd-data/snapshot-check.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/question.h"
#include "talosctl/recover/remote-recovery.h"

namespace talos::talosctl {
namespace {

constexpr uint64_t kPiece = 1u << 20;
constexpr auto kRecovery = 20 * kj::MINUTES;

// Verifies the whole file, for data is erased for it. Returns its newest revision.
kj::Promise<int64_t> verified(kj::Timer& timer, const SentFile& file, bool skipHashCheck) {
  SnapshotCheck check(file.size(), skipHashCheck);
  for (uint64_t at = 0; at < file.size(); at += kPiece) {
    // The loop polls: an interrupt is answered.
    if (at > 0) co_await timer.afterDelay(0 * kj::SECONDS);
    check.add(file.read(at, kj::min(kPiece, file.size() - at)));
  }
  check.finish();
  co_return newestRevision(check.databaseBytes(),
                           [&](uint64_t at, size_t size) { return file.read(at, size); });
}

kj::Promise<int> runRecover(Invocation& call) {
  bool dryRun = call.on("dry-run"), skipHashCheck = call.on("recover-skip-hash-check");
  bool asks = !call.on("yes") && !dryRun;
  if (asks && !canAsk(call, "whether to recover")) {
    fail(ErrorKind::kFailedPrecondition,
         "cannot ask whether to recover: there is no terminal; use --yes, or --dry-run to see what "
         "would be done");
  }
  SentFile snapshot(call.arguments[0]);
  auto revision = co_await verified(call.deps.timer, snapshot, skipHashCheck);
  auto session = co_await openSession(call, kDeadline);
  auto names = session->client.nodes();
  Progress progress(call.deps.console, names);
  RemoteRecovery cluster(call, names, call.list("without"), snapshot, skipHashCheck);
  RecoveryOptions options{.request = {.without = call.list("without"), .force = call.on("force")},
                          .revision = revision,
                          .dryRun = dryRun};
  auto say = [&call](kj::StringPtr line) { call.err(kj::str(printableText(line), "\n")); };
  auto confirm = [&call, asks](kj::StringPtr question) -> kj::Promise<bool> {
    if (!asks) return true;
    return confirmed(call.deps, question);
  };
  RecoveryRun run(call.deps.timer, cluster, progress, names, options, say, confirm);
  if (!co_await run.run()) {
    if (dryRun) co_return 0;
    fail(ErrorKind::kFailedPrecondition, "not confirmed; nothing was changed");
  }
  for (auto& name : names) {
    if (formatOf(call) == Format::kJson) {
      call.out(jsonDone(name, kj::str(",\"revision\":", revision)));
    }
  }
  if (formatOf(call) != Format::kJson) {
    call.out(kj::str("etcd is recovered: ", names.size(), names.size() == 1 ? " voter" : " voters",
                     ", from revision ", revision, " of \"", call.arguments[0], "\"\n"));
  }
  co_return 0;
}

}  // namespace

void addRecoverCommand(Command& cluster) {
  auto& command = cluster.add(
      "recover", "Make a new etcd from a snapshot after the quorum was lost, on any cluster");
  command.arguments = "<snapshot>";
  command.least = command.most = 1;
  command.details =
      "The --nodes are all control-plane nodes of the cluster that is to be: those that are left "
      "of "
      "the lost one, and new machines with its config. The snapshot is verified and the nodes are "
      "surveyed before anything is changed: refused is a cluster that has its quorum or may have "
      "it "
      "again. Then EPHEMERAL is erased on the nodes that have data of etcd, the snapshot is "
      "restored on the first, and the others join it. A run that was cut off is started again.";
  command.timeout = kRecovery;
  command.flag({.name = "dry-run", .help = "change nothing; show what would be done"});
  command.flag({.name = "force",
                .help = "even if members that have their data could form a quorum: give it up"});
  command.flag({.name = "recover-skip-hash-check",
                .help = "the snapshot is a copy of the database of a member, without a hash"});
  command.flag({.name = "without",
                .kind = FlagKind::kList,
                .help = "addresses or names of members that are gone for good, with their data"});
  command.flag({.name = "yes", .letter = "y", .help = "do not ask"});
  addStreamOutputFlag(command);
  command.run = runRecover;
}

}  // namespace talos::talosctl
