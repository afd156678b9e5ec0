// etcd snapshot <path>; with --every a series of them in a folder
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/etcd-data/snapshot-series.h"
#include "common/etcd-data/snapshot-signature.h"
#include "common/text/foreign-text.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/client/received-bytes.h"
#include "talosctl/etcd/etcd-commands.h"
#include "talosctl/etcd/etcd-snapshot.h"

namespace talos::talosctl {
namespace {

constexpr auto kShortestEvery = 10 * kj::SECONDS, kRetry = 1 * kj::MINUTES;

// Returns the files that a snapshot and its signature will replace, and the date of the first.
// Asks a user before another file is replaced, whose name may be a typing error. A script
// continues, because scripts keep their latest snapshot under one name.
kj::Promise<kj::String> replacedBySnapshot(Invocation& call, kj::StringPtr path) {
  kj::String all;
  for (auto& name : {kj::str(path), kj::str(path, kSignatureSuffix)}) {
    struct stat status;
    if (stat(name.cStr(), &status) != 0) continue;
    auto date = dateText(kj::UNIX_EPOCH + status.st_mtime * kj::SECONDS);
    all = all.size() > 0 ? kj::str(all, ", and \"", name, "\"")
                         : kj::str("\"", name, "\", which was written ", date);
  }
  auto& console = call.deps.console;
  bool asks = !call.on("force") && console.inIsTerminal() && console.errIsTerminal();
  if (asks && all.size() > 0 && !co_await confirmed(call.deps, kj::str("replace ", all, "?"))) {
    fail(ErrorKind::kConflict, kj::str(all, ", already exists, use --force to overwrite"));
  }
  co_return kj::mv(all);
}

kj::Maybe<kj::Own<CmsRecipient>> recipientOf(Invocation& call) {
  if (!call.given("encrypt-to")) return nullptr;
  auto file = call.text("encrypt-to");
  return kj::heap<CmsRecipient>(readFile(file, kMostCertificate), file);
}

// Saves a snapshot of this node. Returns the size in bytes that the node has sent.
kj::Promise<uint64_t> save(Invocation& call, Session& session, kj::StringPtr name,
                           kj::StringPtr path, const kj::Maybe<kj::Own<CmsRecipient>>& recipient) {
  kj::Maybe<const CmsRecipient&> to;
  KJ_IF_MAYBE (r, recipient) to = **r;
  SnapshotFile file(path, to);
  auto node = session.client.node(name);
  auto request = node.etcdRequest().send().getEtcd().snapshotRequest();
  SinkFailure broken;
  ReceivedBytes received(
      [&](kj::ArrayPtr<const kj::byte> bytes) { broken.keeping([&]() { file.write(bytes); }); });
  request.setSink(received.sink());
  Alive alive;
  kj::Array<kj::byte> signature;
  auto saving = request.send().then(
      [&](auto&& answer) { signature = kj::heapArray<kj::byte>(answer.getSignature()); });
  co_await broken.before(watched(session, node, alive, kj::mv(saving)));
  if (signature.size() > kMostSnapshotSignature) signature = nullptr;
  file.keep(signature);
  if (signature.size() == 0) {
    call.err(kj::str(name,
                     " did not sign the snapshot; upgrade the node, or use --unsigned with "
                     "talosctl cluster recover\n"));
  }
  co_return file.size();
}

void printSaved(Invocation& call, kj::StringPtr node, kj::StringPtr path, uint64_t bytes) {
  printDone(call, node, {{"path"_kj, jsonString(path)}, {"bytes"_kj, kj::str(bytes)}});
  if (formatOf(call) == Format::kTable) {
    call.out(kj::str("etcd snapshot saved to \"", path, "\" (", bytes, " bytes)\n"));
  }
}

kj::Promise<int> saveOne(Invocation& call) {
  auto& path = call.arguments[0];
  auto recipient = recipientOf(call);
  auto session = co_await openSingle(call);
  auto replaced = co_await replacedBySnapshot(call, path);
  auto node = kj::str(session->client.nodes()[0]);
  auto bytes = co_await save(call, *session, node, path, recipient);
  if (replaced.size() > 0) call.err(kj::str("replaced ", replaced, "\n"));
  printSaved(call, node, path, bytes);
  co_return 0;
}

// --- a series

struct Series {
  kj::StringPtr folder;
  kj::Duration every;
  size_t keep;
  kj::Maybe<kj::Own<CmsRecipient>> recipient;
};

Series seriesOf(Invocation& call) {
  Series series{call.arguments[0], call.duration("every"), 0, recipientOf(call)};
  if (series.every < kShortestEvery) failUsage("--every must be at least 10s");
  auto keep = call.number("keep");
  if (keep < 1) failUsage("--keep must be at least 1");
  series.keep = static_cast<size_t>(keep);
  struct stat status;
  if (stat(series.folder.cStr(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", series.folder, "\" is not a folder; with --every one is needed"));
  }
  if (access(series.folder.cStr(), W_OK) != 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("cannot write into ", series.folder, ": ", strerror(errno)));
  }
  return series;
}

void removeReplaced(Invocation& call, const Series& series) {
  auto names = namesIn(series.folder);
  for (auto name : replacedSnapshots(names, series.keep)) {
    for (auto suffix : {""_kj, kSignatureSuffix}) {
      auto path = kj::str(series.folder, "/", name, suffix);
      if (unlink(path.cStr()) != 0 && errno != ENOENT) {
        call.err(kj::str("cannot remove ", path, ": ", strerror(errno), "\n"));
      }
    }
  }
}

// Saves a snapshot of the first node that sends one. Resolves to false if no node did; each failure
// has been printed.
kj::Promise<bool> saveNext(Invocation& call, Session& session, const Series& series) {
  auto path =
      kj::str(series.folder, "/", snapshotName(call.deps.clock.now(), series.recipient != nullptr));
  for (auto& node : session.client.nodes()) {
    kj::Maybe<kj::String> problem;
    try {
      co_await session.client.connect(session.deadline);
      auto bytes = co_await save(call, session, node, path, series.recipient);
      printSaved(call, node, path, bytes);
      removeReplaced(call, series);
      co_return true;
    } catch (const kj::Exception& e) {
      problem = messageText(e);
    }
    KJ_IF_MAYBE (text, problem) {
      call.err(kj::str(dateText(call.deps.clock.now()), " ", node, ": no snapshot: ", *text, "\n"));
    }
  }
  co_return false;
}

kj::Promise<int> saveSeries(Invocation& call) {
  auto series = seriesOf(call);
  Session session(call.deps, resolveTarget(call), call.deadline());
  if (session.client.nodes().size() == 0) {
    fail(ErrorKind::kInvalidArgument, "no node given; use --nodes with the control-plane nodes");
  }
  for (;;) {
    bool saved = co_await saveNext(call, session, series);
    auto pause = saved ? series.every : kj::min(series.every, kRetry);
    call.deps.console.waiting(kj::str("next snapshot ", dateText(call.deps.clock.now() + pause)));
    co_await call.deps.timer.afterDelay(pause);
  }
}

// An interrupt is the normal end of a series, but a failure for a single snapshot.
kj::Promise<int> runSnapshot(Invocation& call) {
  bool series = call.given("every");
  if (!series && call.given("keep")) failUsage("--keep needs --every");
  auto interrupted = call.interrupted().then([&call, series]() {
    constexpr int kInterrupted = 130;  // as shells report it
    call.err("interrupted\n");
    return series ? 0 : kInterrupted;
  });
  return (series ? saveSeries(call) : saveOne(call)).exclusiveJoin(kj::mv(interrupted));
}

}  // namespace

void addSnapshotCommand(Command& etcd) {
  auto& snapshot = etcd.add("snapshot", "Save a snapshot of etcd to a file");
  snapshot.arguments = "<path>";
  snapshot.least = snapshot.most = 1;
  snapshot.details =
      "The file holds every secret of the cluster. It is verified, and appears only when it is "
      "complete; <path>.sig has its signature. See talosctl cluster recover.\n"
      "With --every the path is a folder, of which the newest --keep snapshots stay; of several\n"
      "--nodes, the first that answers gives one. It ends when it is interrupted.";
  snapshot.flag({.name = "force", .help = "replace a file without a question"});
  snapshot.flag({.name = "every",
                 .kind = FlagKind::kDuration,
                 .fallback = "0s",
                 .help = "save one now, and again after this time, such as 1h"});
  snapshot.flag({.name = "keep",
                 .kind = FlagKind::kNumber,
                 .fallback = "24",
                 .help = "with --every: how many stay in the folder"});
  snapshot.flag({.name = "encrypt-to",
                 .kind = FlagKind::kText,
                 .help = "certificate in PEM format: only the owner of its key reads the file "
                         "(openssl cms -decrypt)"});
  addOutputFlag(snapshot);
  snapshot.interrupt = Interrupt::kIsCommands;
  snapshot.run = runSnapshot;
}

}  // namespace talos::talosctl
