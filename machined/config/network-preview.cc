#include "machined/config/network-preview.h"

#include "common/base/error.h"

namespace talos::machined {
namespace {
constexpr auto kDeadline = 5 * kj::SECONDS;
}

kj::Promise<ConfigurationServer::NetworkPreview> previewNetwork(NetworkSpecs specs,
                                                                rpc::Networkd::Client networkd,
                                                                kj::Timer& timer) {
  auto request = networkd.planRequest();
  specs.fill(request.initSpecs(specs.size()));
  ConfigurationServer::NetworkPreview result;
  for (auto& problem : specs.problems()) result.problems.add(kj::str(problem));
  kj::Maybe<kj::String> failure;
  try {
    auto answer = co_await timer.timeoutAfter(kDeadline, request.send());
    for (auto step : answer.getSteps()) result.steps.add(kj::str(step));
    for (auto problem : answer.getProblems()) result.problems.add(kj::str(problem));
  } catch (...) {
    failure = messageOf(kj::getCaughtExceptionAsKj());
  }
  KJ_IF_MAYBE (error, failure) {
    fail(ErrorKind::kUnavailable, kj::str("networkd does not respond: ", *error));
  }
  co_return kj::mv(result);
}

}  // namespace talos::machined
