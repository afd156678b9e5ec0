// bootstrap
#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/etcd/bootstrap-call.h"
#include "talosctl/etcd/etcd-commands.h"

namespace talos::talosctl {

namespace {

// Long, because a node may have to fetch the image first; a member itself starts within seconds.
constexpr auto kBootstrap = 10 * kj::MINUTES;

kj::Promise<int> runBootstrap(Invocation& call) {
  kj::Maybe<kj::Own<SentFile>> snapshot;
  if (call.given("recover-from")) {
    snapshot = kj::heap<SentFile>(call.text("recover-from"));
  } else if (call.on("recover-skip-hash-check")) {
    failUsage("--recover-skip-hash-check is of use with --recover-from only");
  }
  auto session = co_await openSingle(call);
  auto names = session->client.nodes();
  Progress progress(call.deps.console, names);
  kj::Vector<kj::String> others;
  for (auto& host : namedHosts(call)) {
    if (host != names[0]) others.add(kj::mv(host));
  }
  BootstrapCall how{.among = others,
                    .without = call.list("without"),
                    .snapshot = snapshot.map([](auto& file) -> const SentFile& { return *file; }),
                    .skipHashCheck = call.on("recover-skip-hash-check")};
  bool done = false;
  kj::String last;
  kj::Maybe<kj::Exception> wrong;
  co_await callBootstrap(call, *session, names[0], how, progress, last)
      .then([&](bool before) { done = before; }, [&](kj::Exception&& e) { wrong = kj::mv(e); });
  KJ_IF_MAYBE (e, wrong) {
    progress.fail(0);
    if (kindOf(*e) == ErrorKind::kDeadlineExceeded && last.size() > 0) {
      call.err(kj::str("the node continues; last state: ", printableText(last), "\n"));
    }
    kj::Vector<Failure> failures;
    failures.add(kj::str(names[0]), kj::mv(*e));
    printFailure(call, failures[0]);
    co_return conclude(call, failures, 0, Partial::kIsFailure);
  }
  if (snapshot != nullptr && !done) call.err(kj::str(kTokensEnd, "\n"));
  progress.set(0, done ? "etcd was bootstrapped before" : "etcd is bootstrapped");
  printDone(call, names[0], {{"bootstrappedBefore"_kj, kj::str(done)}});
  co_return 0;
}

}  // namespace

void addBootstrapCommand(Command& root) {
  auto& command = root.add("bootstrap", "Bootstrap etcd on one control-plane node");
  command.details =
      "Run it once in the life of a cluster, on one node; the others join by themselves. The node "
      "first asks all nodes that its config or your talosconfig names, and refuses if one of them "
      "has a cluster or does not answer. Never deletes data. Returns when etcd is healthy.";
  command.flag({.name = "recover-from",
                .kind = FlagKind::kText,
                .help = "a snapshot of etcd (talosctl etcd snapshot) to restore; its signature is "
                        "not verified, which talosctl cluster recover does"});
  command.flag({.name = "recover-skip-hash-check",
                .help = "the snapshot is a copy of the database of a member, without a hash"});
  command.flag({.name = "without",
                .kind = FlagKind::kList,
                .help = "nodes to skip: they have no cluster, or are gone for good"});
  command.timeout = kBootstrap;
  addOutputFlag(command);
  command.run = runBootstrap;
}

}  // namespace talos::talosctl
