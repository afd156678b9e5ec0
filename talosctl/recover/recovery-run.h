// Makes a new cluster of etcd from a snapshot on the control-plane nodes of one that is lost:
// surveys them and judges that (recovery-plan.h), erases the data of those that have some, restores
// the snapshot on the first, and waits until all of them vote.
//
// Nothing is kept between the steps, here or on the nodes. A run that was cut off is started again:
// a node that was erased is empty and is not erased twice, and from the moment that the snapshot is
// restored there is a quorum, so a further run is refused and changes nothing; the other nodes join
// by themselves. Every wait has a limit and says what for.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "talosctl/cli/progress-lines.h"
#include "talosctl/recover/recovery-plan.h"

namespace talos::talosctl {

class RecoveryCluster {
 public:
  virtual ~RecoveryCluster() noexcept(false) = default;

  // Each in its order; never rejects. Those that do not answer are silent in it.
  virtual kj::Promise<kj::Array<RecoveryNode>> survey() = 0;
  // Erases EPHEMERAL of one that was surveyed; resolves when it is up again.
  virtual kj::Promise<void> erase(const RecoveryNode& node, Progress& progress, size_t index) = 0;
  // Restores the snapshot on the first; resolves when its etcd is healthy.
  virtual kj::Promise<void> restore(Progress& progress) = 0;
};

struct RecoveryOptions {
  RecoveryRequest request;
  int64_t revision;                                     // of the snapshot
  kj::Maybe<const SignedSnapshot&> snapshot = nullptr;  // none: its origin is not verified
  bool dryRun = false;
};

constexpr auto kEmptyLimit = 3 * kj::MINUTES, kVotesLimit = 10 * kj::MINUTES,
               kRecoveryPause = 1 * kj::SECONDS;

class RecoveryRun {
 public:
  using Confirm = kj::Function<kj::Promise<bool>(kj::StringPtr question)>;
  // All outlive it. `names`: the addresses of the nodes. `say`: a line about what is known and what
  // will be done. `confirm` is asked before the first change.
  RecoveryRun(kj::Timer& timer, RecoveryCluster& cluster, Progress& progress,
              kj::ArrayPtr<const kj::String> names, RecoveryOptions options,
              kj::Function<void(kj::StringPtr)> say, Confirm confirm)
      : timer(timer),
        cluster(cluster),
        progress(progress),
        names(names),
        options(options),
        say(kj::mv(say)),
        confirm(kj::mv(confirm)) {}
  KJ_DISALLOW_COPY_AND_MOVE(RecoveryRun);

  // False: nothing was changed, as it is a dry run or the answer was no. FailedPrecondition with
  // every refusal; other errors say which node stopped it and how far it was.
  kj::Promise<bool> run();

 private:
  kj::Timer& timer;
  RecoveryCluster& cluster;
  Progress& progress;
  kj::ArrayPtr<const kj::String> names;
  RecoveryOptions options;
  kj::Function<void(kj::StringPtr)> say;
  Confirm confirm;

  void refuse(kj::ArrayPtr<const kj::String> refusals);
  void sayOrigin(kj::Maybe<SnapshotStatement>& statement);
  kj::Promise<void> eraseAll(kj::ArrayPtr<const RecoveryNode> nodes, const RecoveryPlan& plan);
  using Reached = bool (*)(const RecoveryNode& node);
  kj::Promise<void> await(Reached reached, kj::StringPtr what, kj::Duration limit);
};

}  // namespace talos::talosctl
