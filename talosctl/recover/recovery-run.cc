#include "talosctl/recover/recovery-run.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/text/texts.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/etcd/bootstrap-call.h"
#include "talosctl/rollout/attempts.h"

namespace talos::talosctl {
namespace {

bool isEmpty(const RecoveryNode& node) {
  return node.silence == nullptr && node.isEmpty();
}

bool votes(const RecoveryNode& node) {
  return node.silence == nullptr && node.phase == "member" && node.quorum;
}

}  // namespace

void RecoveryRun::refuse(kj::ArrayPtr<const kj::String> refusals) {
  if (refusals.size() == 0) return;
  for (auto& refusal : refusals) say(refusal);
  fail(ErrorKind::kFailedPrecondition, "not recovered; nothing was changed");
}

void RecoveryRun::sayOrigin(kj::Maybe<SnapshotStatement>& statement) {
  KJ_IF_MAYBE (s, statement) {
    say(kj::str("the snapshot was taken ", dateText(s->taken), " and signed by a member of etcd"));
  } else {
    say("the origin of the snapshot is not verified (--unsigned)"_kj);
  }
}

// Erases the nodes in parallel. When this rejects, all erasures have ended; the error has the
// reason of each failure.
kj::Promise<void> RecoveryRun::eraseAll(kj::ArrayPtr<const RecoveryNode> nodes,
                                        const RecoveryPlan& plan) {
  kj::Vector<kj::String> failures;
  auto erase = [&](size_t index) {
    return kj::evalNow([&]() { return cluster.erase(nodes[index], progress, index); })
        .catch_([&, index](kj::Exception&& e) {
          progress.fail(index);
          failures.add(kj::str(names[index], ": ", messageOf(e)));
        })
        .eagerlyEvaluate(nullptr);  // a failure is shown at once, before all have ended
  };
  kj::Vector<kj::Promise<void>> erasing;
  for (auto i : kj::indices(nodes)) {
    if (contains(plan.erased, nodes[i].address)) erasing.add(erase(i));
  }
  co_await kj::joinPromises(erasing.releaseAsArray());
  if (failures.empty()) co_return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("not all nodes were erased, and no snapshot was restored: ",
               kj::strArray(failures, "; "), "; repair that and repeat the command"));
}

kj::Promise<void> RecoveryRun::await(Reached reached, kj::StringPtr what, kj::Duration limit) {
  RetryOptions options{.limit = limit, .late = [&](kj::StringPtr others) {
                         return error(ErrorKind::kDeadlineExceeded,
                                      kj::str(what, " within ", durationText(limit), ": ", others));
                       }};
  co_await retryUntilReached(timer, kj::mv(options), [&]() -> kj::Promise<Missing> {
    auto nodes = co_await cluster.survey();
    kj::Vector<kj::String> others;
    for (auto i : kj::indices(nodes)) {
      bool done = reached(nodes[i]);
      progress.set(i, done ? kj::str(nodes[i].phase) : stateText(nodes[i]));
      if (!done) others.add(kj::str(names[i], ": ", stateText(nodes[i])));
    }
    if (others.empty()) co_return nullptr;
    co_return kj::strArray(others, "; ");
  });
}

kj::Promise<bool> RecoveryRun::run() {
  auto nodes = co_await cluster.survey();
  auto plan = planRecovery(nodes, options.request);
  kj::Maybe<SnapshotStatement> statement;
  KJ_IF_MAYBE (snapshot, options.snapshot) {
    statement = judgeSignature(nodes, *snapshot, plan.refusals);
  }
  refuse(plan.refusals);
  sayOrigin(statement);
  for (auto& line : lossLines(nodes, options.revision)) say(line);
  for (auto& address : plan.erased) {
    say(kj::str(address, ": erases EPHEMERAL, with the data of etcd and of the pods, and reboots"));
  }
  say(kj::str(names[0], ": restores the snapshot, revision ", options.revision,
              names.size() > 1 ? "; the others join it" : ""));
  say(kj::str(kTokensEnd));
  if (options.dryRun || !co_await confirm(kj::str("recover etcd on these nodes?"))) co_return false;
  co_await eraseAll(nodes, plan);
  co_await await(isEmpty, "not all nodes are without data of etcd", kEmptyLimit);
  co_await cluster.restore(progress);
  co_await await(votes, "the snapshot is restored, but not all nodes are members", kVotesLimit);
  co_return true;
}

}  // namespace talos::talosctl
