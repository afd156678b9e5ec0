// cluster recover
#include "talosctl/recover/recovery-command.h"

#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/etcd-data/cms-output.h"
#include "common/etcd-data/etcd-database.h"
#include "common/etcd-data/snapshot-check.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/recover/remote-recovery.h"
#include "talosctl/rollout/continuation.h"
#include "talosctl/rollout/rollout-flags.h"

namespace talos::talosctl {
namespace {

constexpr uint64_t kPiece = 1u << 20;
constexpr auto kRecovery = 20 * kj::MINUTES;

struct Verified {
  int64_t revision;  // newest revision
  uint64_t databaseBytes;
  kj::Array<kj::byte> digest;
};

// Verifies the whole file, because data is erased for it.
kj::Promise<Verified> verified(kj::Timer& timer, const SentFile& file, bool skipHashCheck) {
  SnapshotCheck check(file.size(), skipHashCheck);
  for (uint64_t at = 0; at < file.size(); at += kPiece) {
    // Lets the event loop poll, so that an interrupt is handled.
    if (at > 0) co_await timer.afterDelay(0 * kj::SECONDS);
    check.add(file.read(at, kj::min(kPiece, file.size() - at)));
  }
  check.finish();
  auto revision = newestRevision(check.databaseBytes(),
                                 [&](uint64_t at, size_t size) { return file.read(at, size); });
  co_return Verified{revision, check.databaseBytes(), kj::heapArray(check.digest())};
}

// Reads the signature, and the CAs that the user names; nullptr with --unsigned.
kj::Maybe<SignedSnapshot> signatureOf(Invocation& call) {
  auto& snapshot = call.arguments[0];
  bool named = call.given("signature");
  if (call.on("unsigned")) {
    if (named) failUsage("--unsigned with --signature: use one of them");
    return nullptr;
  }
  if (call.on("recover-skip-hash-check")) {
    failUsage("--recover-skip-hash-check needs --unsigned: a copy of a database has no signature");
  }
  auto path = named ? kj::str(call.text("signature")) : kj::str(snapshot, kSignatureSuffix);
  if (access(path.cStr(), R_OK) != 0) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("cannot read the signature of the snapshot, \"", path, "\": ", strerror(errno),
                 "; use --signature if it is elsewhere, or --unsigned if there is none: then "
                 "whoever could write the snapshot decides what the cluster is made of"));
  }
  SignedSnapshot result;
  result.signature = kj::heapArray(readFile(path, kMostSnapshotSignature).asBytes());
  if (call.given("etcd-ca")) result.authorities = readFile(call.text("etcd-ca"), kMostCertificate);
  return kj::mv(result);
}

kj::Promise<int> recover(Invocation& call) {
  bool dryRun = call.on("dry-run"), skipHashCheck = call.on("recover-skip-hash-check");
  auto confirm = confirmation(call, "recover");
  auto origin = signatureOf(call);
  SentFile snapshot(call.arguments[0]);
  auto file = co_await verified(call.deps.timer, snapshot, skipHashCheck);
  KJ_IF_MAYBE (o, origin) {
    o->databaseBytes = file.databaseBytes;
    o->digest = kj::mv(file.digest);
  }
  auto session = co_await openSession(call, kDeadline);
  auto names = session->client.nodes();
  Progress progress(call.deps.console, names);
  RemoteRecovery cluster(call, names, call.list("without"), snapshot, skipHashCheck);
  RecoveryOptions options{.request = {.without = call.list("without"), .force = call.on("force")},
                          .revision = file.revision,
                          .snapshot = origin,
                          .dryRun = dryRun};
  auto say = [&call](kj::StringPtr line) { call.err(kj::str(printableText(line), "\n")); };
  RecoveryRun run(call.deps.timer, cluster, progress, names, options, say, kj::mv(confirm));
  if (!co_await run.run()) {
    if (dryRun) co_return 0;
    fail(ErrorKind::kFailedPrecondition, "not confirmed; nothing was changed");
  }
  for (auto& name : names) {
    printDone(call, name, {{"revision"_kj, kj::str(file.revision)}});
  }
  if (formatOf(call) == Format::kTable) {
    call.out(kj::str("etcd is recovered: ", names.size(), names.size() == 1 ? " voter" : " voters",
                     ", from revision ", file.revision, " of \"", call.arguments[0], "\"\n"));
  }
  co_return 0;
}

kj::Promise<int> runRecover(Invocation& call) {
  return untilInterrupted(call, recover(call));
}

}  // namespace

void addRecoverCommand(Command& cluster) {
  auto& command = cluster.add(
      "recover", "Make a new etcd from a snapshot after the quorum was lost, on any cluster");
  command.arguments = "<snapshot>";
  command.least = command.most = 1;
  command.details =
      "The --nodes are all control-plane nodes of the cluster that is to be: those that are left "
      "of the lost one, and new machines with its config. The snapshot and its signature are "
      "verified and the nodes are surveyed before anything is changed: refused is a cluster that "
      "has its quorum or may have it again. Then EPHEMERAL is erased on the nodes that have data "
      "of etcd, the snapshot is "
      "restored on the first, and the others join it. A run that was cut off is started again.";
  command.timeout = kRecovery;
  command.flag({.name = "dry-run", .help = "change nothing; show what would be done"});
  command.flag({.name = "etcd-ca",
                .kind = FlagKind::kText,
                .help = "certificates in PEM format of other CAs whose members may have signed the "
                        "snapshot: of one that was replaced since"});
  command.flag({.name = "force",
                .help = "even if members that have their data could form a quorum: give it up"});
  command.flag({.name = "recover-skip-hash-check",
                .help = "the snapshot is a copy of the database of a member, without a hash"});
  command.flag({.name = "signature",
                .kind = FlagKind::kText,
                .help = "file with the signature of the snapshot (default <snapshot>.sig)"});
  command.flag({.name = "unsigned",
                .help = "do not verify who made the snapshot; for one without a signature"});
  command.flag({.name = "without",
                .kind = FlagKind::kList,
                .help = "addresses or names of members that are gone for good, with their data"});
  command.flag({.name = "yes", .letter = "y", .help = "do not ask"});
  addOutputFlag(command);
  declareRollout(command);
  command.run = runRecover;
}

}  // namespace talos::talosctl
