#include "common/health/run-health.h"

#include "common/base/error.h"

namespace talos {
namespace {

constexpr auto kDiscoveryLimit = 5 * kj::MINUTES, kDiscoveryInterval = 5 * kj::SECONDS;
// While a cluster comes up, its nodes register shortly after each other.
constexpr auto kSettling = 1 * kj::SECONDS;
// Throws errors that waiting does not resolve.
void throwIfFinal(const kj::Exception& e) {
  auto kind = kindOf(e);
  if (kind == ErrorKind::kFailedPrecondition || kind == ErrorKind::kPermissionDenied ||
      kind == ErrorKind::kUnimplemented || kind == ErrorKind::kInvalidArgument) {
    kj::throwFatalException(kj::cp(e));
  }
}

constexpr kj::StringPtr kDiscovery = "Kubernetes to list its nodes"_kj;

}  // namespace

kj::Promise<void> HealthRun::await(Wait wait, kj::Function<kj::Promise<CheckResult>()> attempt) {
  auto until = kj::min(timer.now() + wait.limit, end);
  if (wait.announced) report.begin(wait.name);
  for (;;) {
    auto begun = timer.now();
    auto result = co_await attempt();
    bool over = result.state != CheckState::kWaiting;
    if (!wait.announced && over) co_return;
    if (!wait.announced) report.begin(wait.name);
    wait.announced = true;
    report.state(result);
    if (over) break;
    if (timer.now() >= until) {
      report.end();
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out waiting for ", wait.name, ": ", result.text));
    }
    co_await timer.atTime(kj::min(kj::max(begun + wait.interval, timer.now()), until));
  }
  report.end();
}

kj::Promise<ClusterNodes> HealthRun::discover(kj::StringPtr asked) {
  ClusterNodes nodes;
  kj::String first[] = {kj::str(asked)};
  co_await await({.name = kDiscovery,
                  .limit = kDiscoveryLimit,
                  .interval = kDiscoveryInterval,
                  .announced = false},
                 [&]() -> kj::Promise<CheckResult> {
                   kj::String problem;
                   try {
                     auto found = co_await observer.survey(kSurveyTimeout);
                     nodes = discoveredNodes(found.survey);
                     if (!nodes.controlPlane.empty()) co_return CheckResult::passed();
                     problem = kj::str("Kubernetes knows no control-plane node yet");
                     for (auto unread : found.survey.getProblems()) problem = kj::str(unread);
                   } catch (...) {
                     auto e = kj::getCaughtExceptionAsKj();
                     throwIfFinal(e);
                     problem = messageOf(e);
                   }
                   auto facts = co_await observer.nodes(first, kDiscoveryInterval);
                   KJ_IF_MAYBE (step, bootstrapNeeded(facts)) problem = kj::mv(*step);
                   co_return CheckResult::waiting(kj::mv(problem));
                 });
  report.discovered(nodes);
  co_return kj::mv(nodes);
}

kj::Promise<CheckResult> HealthRun::observe(const HealthCheck& check,
                                            const ClusterNodes& expected) {
  using About = HealthCheck::About;
  HealthView view{.expected = expected, .unregistered = unregistered};
  if (check.about == About::kKubernetes || check.about == About::kComponents) {
    kj::String problem;
    HealthObserver::Survey found;
    try {
      found = co_await observer.survey(kSurveyTimeout);
      view.survey = found.survey;
      auto now = discoveredNodes(found.survey);
      if (follows && !now.controlPlane.empty() && discoveredLine(now) != discoveredLine(expected)) {
        relisted = kj::mv(now);
        co_return CheckResult::skipped(kj::str("Kubernetes lists other nodes now"));
      }
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      throwIfFinal(e);
      problem = messageOf(e);
      view.surveyProblem = problem;
    }
    auto result = check.judge(view);
    bool mayBeWanted = result.state == CheckState::kWaiting && view.survey != nullptr;
    if (check.about != About::kComponents || !mayBeWanted) co_return kj::mv(result);
    auto facts = co_await observer.nodes(expected.controlPlane, check.interval);
    view.nodes = facts;
    co_return check.judge(view);
  }
  auto all = expected.all();
  bool some = check.about == About::kControlPlane;
  auto names = some ? expected.controlPlane.asPtr() : all.asPtr();
  auto facts = co_await observer.nodes(names, check.interval);
  note(facts);
  view.nodes = facts;
  co_return check.judge(view);
}

// A node that does not answer keeps what it has said before.
void HealthRun::note(kj::ArrayPtr<const NodeFacts> facts) {
  for (auto& node : facts) {
    if (node.silence != nullptr) continue;
    kj::Vector<kj::String> others;
    for (auto& name : unregistered) {
      if (name != node.node) others.add(kj::mv(name));
    }
    if (node.unregistered) others.add(kj::str(node.node));
    unregistered = kj::mv(others);
  }
}

kj::Promise<void> HealthRun::check(const ClusterNodes& expected) {
  for (auto& one : healthChecks()) {
    co_await await({.name = one.name, .limit = one.limit, .interval = one.interval},
                   [&]() { return observe(one, expected); });
    if (relisted != nullptr) co_return;
  }
}

kj::Promise<void> HealthRun::checkListed(kj::StringPtr asked) {
  auto expected = co_await discover(asked);
  follows = true;
  for (;;) {
    co_await check(expected);
    KJ_IF_MAYBE (nodes, relisted) {
      expected = kj::mv(*nodes);
      relisted = nullptr;
      report.discovered(expected);
      if (timer.now() >= end) {
        fail(ErrorKind::kDeadlineExceeded,
             "timed out: Kubernetes lists other nodes again and again");
      }
      co_await timer.afterDelay(kSettling);
    } else {
      co_return;
    }
  }
}

}  // namespace talos
