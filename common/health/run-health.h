// Waits until a cluster is healthy: check after check, each attempted at once and then again in its
// interval, until it passes, is skipped, or times out, by itself or with all of them.
//
// Every attempt has a deadline: the interval for nodes, kSurveyTimeout for Kubernetes. It changes
// nothing.
#pragma once

#include <kj/timer.h>

#include "common/health/health-checks.h"

namespace talos {

constexpr auto kSurveyTimeout = 35 * kj::SECONDS;  // an answer may take 30 s (kubernetes.capnp)

// The source of observations.
class HealthObserver {
 public:
  virtual ~HealthObserver() noexcept(false) = default;
  // Never rejects (node-facts.h).
  virtual kj::Promise<kj::Array<NodeFacts>> nodes(kj::ArrayPtr<const kj::String> names,
                                                  kj::Duration deadline) = 0;
  struct Survey {
    rpc::Survey::Reader survey;
    kj::Own<void> held;  // keeps the message alive
  };
  // Rejects with the reason; FailedPrecondition, PermissionDenied, Unimplemented and
  // InvalidArgument are final.
  virtual kj::Promise<Survey> survey(kj::Duration deadline) = 0;
};

// Receives the progress.
class HealthReport {
 public:
  virtual ~HealthReport() noexcept(false) = default;
  virtual void discovered(const ClusterNodes& nodes) = 0;
  // A check starts; then its result, again only when it has changed.
  virtual void begin(kj::StringPtr check) = 0;
  virtual void state(const CheckResult& result) = 0;
  // The check has ended with its last result: passed, skipped, or timed out.
  virtual void end() = 0;
};

class HealthRun {
 public:
  // All outlive it. `timeout` is for everything together.
  HealthRun(kj::Timer& timer, HealthObserver& observer, HealthReport& report, kj::Duration timeout)
      : timer(timer), observer(observer), report(report), end(timer.now() + timeout) {}
  KJ_DISALLOW_COPY_AND_MOVE(HealthRun);

  // The nodes that Kubernetes knows, as soon as it answers. `asked`: the control-plane node whose
  // etcd is looked at while it does not.
  kj::Promise<ClusterNodes> discover(kj::StringPtr asked);
  // DeadlineExceeded naming the check and what it waited for.
  kj::Promise<void> check(const ClusterNodes& expected);
  // Both. When Kubernetes lists other nodes than before, as that of a cluster which comes up does,
  // that check is skipped and all begin again with these nodes.
  kj::Promise<void> checkListed(kj::StringPtr asked);

 private:
  kj::Timer& timer;
  HealthObserver& observer;
  HealthReport& report;
  kj::TimePoint end;
  bool follows = false;              // the nodes were discovered, not given
  kj::Maybe<ClusterNodes> relisted;  // the nodes of Kubernetes, when others were expected

  // `announced`: from the start, or else after a first attempt that did not pass.
  struct Wait {
    kj::StringPtr name;
    kj::Duration limit, interval;
    bool announced = true;
  };
  kj::Promise<void> await(Wait wait, kj::Function<kj::Promise<CheckResult>()> attempt);
  kj::Promise<CheckResult> observe(const HealthCheck& check, const ClusterNodes& expected);
};

}  // namespace talos
