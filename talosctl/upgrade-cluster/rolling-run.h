// Upgrades every node of a cluster to an image, according to the plan (rolling-plan.h).
//
// First it surveys the cluster and lets each node fetch and verify the image: until then nothing
// has changed. Then it upgrades node after node. It continues with the next node when the node's
// system is confirmed, etcd has caught up and the node is back in Kubernetes. The first node that
// fails ends the run; the others stay as they are, and the cluster works with both systems.
//
// The nodes hold the only state: their systems and the progress of their upgrades. So a run that
// was interrupted at any point, on any machine, continues when it is started again: it skips nodes
// that run the image, and follows a node in the middle of its upgrade. If two runs call the same
// node, the node refuses the second request, and the second run follows it as well. Every wait has
// a limit and reports its goal.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "talosctl/cli/node-outcome.h"
#include "talosctl/upgrade-cluster/rolling-lines.h"

namespace talos::talosctl {

// The cluster to upgrade.
class RollingCluster {
 public:
  virtual ~RollingCluster() noexcept(false) = default;

  // Returns the state; nodes without an answer are silent in it.
  virtual kj::Promise<ClusterSurvey> survey() = 0;

  struct Look {
    Judgement judgement;  // judges an upgrade that began in the boot `before`
    kj::String digest, version;
  };
  // Rejects if the node does not answer.
  virtual kj::Promise<Look> look(kj::StringPtr node, kj::StringPtr before) = 0;

  // Lets the node fetch the image. Never rejects. `keep`: keeps the image for the upgrade that
  // follows.
  using Fetched = kj::Function<void(kj::StringPtr progress)>;
  virtual kj::Promise<FetchOutcome> fetch(kj::StringPtr node, const TargetImage& target, bool keep,
                                          Fetched progress) = 0;
  // Requests the upgrade and returns the id of the boot that ends. Conflict: an upgrade is under
  // way; Unavailable: etcd needs the node now; NotFound: the node no longer has the file that was
  // sent to it.
  virtual kj::Promise<kj::String> upgrade(kj::StringPtr node, const TargetImage& target) = 0;
  // Makes the node's etcd member hand over the leadership.
  virtual kj::Promise<void> forfeit(kj::StringPtr node) = 0;
};

struct RollingOptions {
  unsigned parallel = 1;  // workers at a time
  bool ignoreBudgets = false, dryRun = false;
  bool live = false;  // without reboots
  kj::Duration healthTimeout = 10 * kj::MINUTES;
};

// Limits of the waits, and the interval of the attempts.
constexpr auto kSettleLimit = 3 * kj::MINUTES, kWellLimit = 10 * kj::MINUTES,
               kBudgetLimit = 5 * kj::MINUTES, kTurnLimit = 10 * kj::MINUTES,
               kHandOverLimit = 30 * kj::SECONDS, kRebootLimit = 20 * kj::MINUTES,
               kConflictLimit = 30 * kj::SECONDS, kSurveyPause = 1 * kj::SECONDS,
               kLookPause = 500 * kj::MILLISECONDS;

class RollingRun {
 public:
  using Confirm = kj::Function<kj::Promise<bool>(kj::StringPtr question)>;
  // All arguments must outlive the run. `confirm` is called before the first change.
  RollingRun(kj::Timer& timer, RollingCluster& cluster, RollingLines& lines, TargetImage target,
             RollingOptions options, Confirm confirm)
      : timer(timer),
        cluster(cluster),
        lines(lines),
        target(kj::mv(target)),
        options(options),
        confirm(kj::mv(confirm)) {}
  KJ_DISALLOW_COPY_AND_MOVE(RollingRun);

  // Resolves to false if the user answered no. Rejects with the remedy when the run stops.
  kj::Promise<bool> run();

 private:
  kj::Timer& timer;
  RollingCluster& cluster;
  RollingLines& lines;
  TargetImage target;
  RollingOptions options;
  Confirm confirm;
  kj::Vector<kj::String> away;     // nodes that are being upgraded
  kj::Vector<kj::String> fetched;  // nodes that have answered the request to fetch the image
  kj::Maybe<kj::Exception> failure;
  kj::String failedNode;

  using Attempt = kj::Function<kj::Promise<kj::Maybe<kj::String>>()>;
  kj::Promise<void> await(kj::StringPtr node, kj::String what, kj::Duration limit, Attempt attempt);
  void refuse(const kj::Vector<PreflightFinding>& findings);
  kj::Promise<ClusterSurvey> settledSurvey();
  kj::Promise<ClusterSurvey> resolve(ClusterSurvey state);
  kj::Promise<FetchOutcome> fetchOn(kj::String node);
  kj::Promise<void> fetchAll(const ClusterSurvey& state);
  void take(const FetchOutcome& fetched);

  kj::Promise<ClusterSurvey> awaitWell(kj::StringPtr node, bool itself);
  kj::Promise<void> awaitBudgets(kj::StringPtr node);
  kj::Promise<void> handOver(kj::StringPtr node);
  kj::Promise<kj::String> request(kj::StringPtr node);
  kj::Promise<kj::String> requestInTurn(kj::StringPtr node);
  kj::Promise<void> follow(kj::StringPtr node, kj::String before, kj::StringPtr wanted);
  kj::Promise<void> awaitReturn(kj::StringPtr node, bool wasCordoned);
  kj::Promise<void> step(kj::StringPtr node);
  kj::Promise<void> stepOrFail(kj::String node);
  kj::Promise<void> controlPlane();
  kj::Promise<void> worker(kj::ArrayPtr<const kj::String> queue, size_t& next);
  kj::Promise<void> workers();
  kj::Promise<void> conclude(const RollingPlan& plan);
  void leave(kj::StringPtr node);
};

}  // namespace talos::talosctl
