// Waits until a cluster is well: check after check, each tried at once and then again in its
// interval, until it passes, is skipped, or its limit or the time for all of them is over.
//
// Every attempt has a deadline: the interval for nodes, kSurveyPatience for Kubernetes. Nothing is
// changed anywhere.
#pragma once

#include <kj/timer.h>

#include "common/health/health-checks.h"

namespace talos {

constexpr auto kSurveyPatience = 35 * kj::SECONDS;  // an answer may take 30 s (kubernetes.capnp)

// Where observations come from.
class HealthObserver {
 public:
  virtual ~HealthObserver() noexcept(false) = default;
  // Never rejects (node-facts.h).
  virtual kj::Promise<kj::Array<NodeFacts>> nodes(kj::ArrayPtr<const kj::String> names,
                                                  kj::Duration deadline) = 0;
  struct Survey {
    rpc::Survey::Reader survey;
    kj::Own<void> held;  // what it is in
  };
  // Rejects with the reason; FailedPrecondition, PermissionDenied, Unimplemented and
  // InvalidArgument are final.
  virtual kj::Promise<Survey> survey(kj::Duration deadline) = 0;
};

// Where progress goes.
class HealthReport {
 public:
  virtual ~HealthReport() noexcept(false) = default;
  virtual void discovered(const ClusterNodes& nodes) = 0;
  // A check begins; its result, which is told again only when it has changed.
  virtual void begin(kj::StringPtr check) = 0;
  virtual void state(const CheckResult& result) = 0;
  // Its last result was its end: passed, skipped, or timed out.
  virtual void end() = 0;
};

class HealthRun {
 public:
  // All outlive it. `patience` is for everything together.
  HealthRun(kj::Timer& timer, HealthObserver& observer, HealthReport& report, kj::Duration patience)
      : timer(timer), observer(observer), report(report), end(timer.now() + patience) {}
  KJ_DISALLOW_COPY_AND_MOVE(HealthRun);

  // The nodes that Kubernetes knows, as soon as it answers.
  kj::Promise<ClusterNodes> discover();
  // DeadlineExceeded naming the check and what it waited for.
  kj::Promise<void> check(const ClusterNodes& expected);

 private:
  kj::Timer& timer;
  HealthObserver& observer;
  HealthReport& report;
  kj::TimePoint end;

  // `told`: from the beginning, or else when the first attempt has not passed.
  struct Wait {
    kj::StringPtr name;
    kj::Duration limit, interval;
    bool told = true;
  };
  kj::Promise<void> await(Wait wait, kj::Function<kj::Promise<CheckResult>()> attempt);
  kj::Promise<CheckResult> observe(const HealthCheck& check, const ClusterNodes& expected);
};

}  // namespace talos
