// Waits until a cluster is healthy: runs check after check, each at once and then again at its
// interval, until it passes, is skipped, or times out, by its own limit or by the common one.
//
// Every attempt has a deadline: the interval for nodes, kSurveyTimeout for Kubernetes. Changes
// nothing.
#pragma once

#include <kj/timer.h>

#include "common/health/health-checks.h"

namespace talos {

constexpr auto kSurveyTimeout = 35 * kj::SECONDS;  // an answer may take 30 s (kubernetes.capnp)

// Source of observations.
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
  // Rejects with the cause; FailedPrecondition, PermissionDenied, Unimplemented and InvalidArgument
  // are final.
  virtual kj::Promise<Survey> survey(kj::Duration deadline) = 0;
};

// Receives the progress.
class HealthReport {
 public:
  virtual ~HealthReport() noexcept(false) = default;
  virtual void discovered(const ClusterNodes& nodes) = 0;
  // Called when a check starts; result() then reports its result, and again only when it has
  // changed.
  virtual void begin(kj::StringPtr check) = 0;
  virtual void state(const CheckResult& result) = 0;
  // Called when the check has ended with its last result: passed, skipped, or timed out.
  virtual void end() = 0;
};

class HealthRun {
 public:
  // All arguments must outlive this object. `timeout` is for all checks together.
  HealthRun(kj::Timer& timer, HealthObserver& observer, HealthReport& report, kj::Duration timeout)
      : timer(timer), observer(observer), report(report), end(timer.now() + timeout) {}
  KJ_DISALLOW_COPY_AND_MOVE(HealthRun);

  // Returns the nodes that Kubernetes knows, as soon as Kubernetes answers. `asked`: the
  // control-plane node whose etcd is observed until then.
  kj::Promise<ClusterNodes> discover(kj::StringPtr asked);
  // Fails with DeadlineExceeded naming the check and what it waited for.
  kj::Promise<void> check(const ClusterNodes& expected);
  // Runs discover() and check(). If Kubernetes later lists other nodes, as it does while a cluster
  // comes up, the current check is skipped and all checks start again with the new nodes.
  kj::Promise<void> checkListed(kj::StringPtr asked);

 private:
  kj::Timer& timer;
  HealthObserver& observer;
  HealthReport& report;
  kj::TimePoint end;
  bool follows = false;              // the nodes were discovered, not given
  kj::Maybe<ClusterNodes> relisted;  // nodes of Kubernetes, if they differ from the expected ones
  kj::Vector<kj::String> unregistered;  // nodes that their configs keep out of Kubernetes

  // `announced`: from the start, or else only after a first attempt that did not pass.
  struct Wait {
    kj::StringPtr name;
    kj::Duration limit, interval;
    bool announced = true;
  };
  kj::Promise<void> await(Wait wait, kj::Function<kj::Promise<CheckResult>()> attempt);
  kj::Promise<CheckResult> observe(const HealthCheck& check, const ClusterNodes& expected);
  void note(kj::ArrayPtr<const NodeFacts> facts);
};

}  // namespace talos
