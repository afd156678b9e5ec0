// Makes a new etcd cluster from a snapshot on the control-plane nodes of a lost cluster: surveys
// and judges the nodes (recovery-plan.h), erases nodes with data, restores the snapshot on the
// first node, and waits until all of them vote.
//
// No state is kept between the steps, neither here nor on the nodes. A run that was interrupted is
// started again: a node that was erased is empty and is not erased twice. Once the snapshot is
// restored there is a quorum, so a further run is refused and changes nothing; the other nodes join
// by themselves. Every wait has a limit and reports its goal.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "talosctl/cli/progress-lines.h"
#include "talosctl/recover/recovery-plan.h"

namespace talos::talosctl {

class RecoveryCluster {
 public:
  virtual ~RecoveryCluster() noexcept(false) = default;

  // Surveys the nodes, in their order; never rejects. Nodes without an answer are silent in the
  // result.
  virtual kj::Promise<kj::Array<RecoveryNode>> survey() = 0;
  // Erases EPHEMERAL of a surveyed node; resolves when the node is up again.
  virtual kj::Promise<void> erase(const RecoveryNode& node, Progress& progress, size_t index) = 0;
  // Restores the snapshot on the first node; resolves when its etcd is healthy.
  virtual kj::Promise<void> restore(Progress& progress) = 0;
};

struct RecoveryOptions {
  RecoveryRequest request;
  int64_t revision;                                     // revision of the snapshot
  kj::Maybe<const SignedSnapshot&> snapshot = nullptr;  // nullptr: the origin is not verified
  bool dryRun = false;
};

constexpr auto kEmptyLimit = 3 * kj::MINUTES, kVotesLimit = 10 * kj::MINUTES;

class RecoveryRun {
 public:
  using Confirm = kj::Function<kj::Promise<bool>(kj::StringPtr question)>;
  // All arguments must outlive the run. `names`: the addresses of the nodes. `say` is called with a
  // line about the known state and the planned steps. `confirm` is called before the first change.
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

  // Resolves to false if nothing was changed, in a dry run or because the user answered no.
  // FailedPrecondition with every refusal; other errors name the node that stopped the run, and the
  // progress.
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
