#include "machined/system/time/time-service.h"

#include <capnp/message.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr auto kHealthWait = 3 * kj::SECONDS, kHealthTimeout = 4 * kj::SECONDS,
               kHealthPeriod = 5 * kj::SECONDS, kHealthStarting = 100 * kj::MILLISECONDS;

}  // namespace

TimeService::TimeService(Supervisor& supervisor, TimeFollower::Dependencies deps)
    : supervisor(supervisor), timer(deps.timer), follower(kj::mv(deps)) {}

ServiceDefinition TimeService::definition() {
  ServiceDefinition d;
  d.id = kj::str(kTimed);
  d.command = kj::str("the time client");
  d.dependsOn.add(kj::str("networkd"));
  d.part = kj::Function<kj::Promise<void>()>([this]() { return follower.run(); });
  // A machine whose servers are out of reach works all the same.
  d.awaited = false;
  // A check waits for the first answer; until that has come, the next check follows soon, because
  // other services wait for it.
  d.health = HealthCheck{[this]() { return health(); }, 0 * kj::SECONDS, kHealthPeriod,
                         kHealthTimeout, kHealthStarting};
  return d;
}

kj::Promise<void> TimeService::health() {
  auto late = timer.afterDelay(kHealthWait).then([this]() {
    auto& problem = follower.state().problem;
    fail(ErrorKind::kUnavailable,
         problem.size() > 0 ? kj::str(problem) : kj::str("no answer from a time server yet"));
  });
  return follower.whenSynced().exclusiveJoin(kj::mv(late));
}

kj::Duration TimeService::awaitedAtMost() const {
  constexpr auto kMost = 365 * kj::DAYS;  // the end of the wait must be a time
  return bootTimeout == 0 * kj::SECONDS ? kWaitsAtMost : kj::min(bootTimeout, kMost);
}

void TimeService::enable(kj::Array<kj::String> servers) {
  follower.setServers(kj::mv(servers));
  if (loaded) return;
  supervisor.load(definition());
  loaded = true;
  capnp::MallocMessageBuilder scratch;
  auto service = scratch.initRoot<rpc::Service>();
  supervisor.fill(kTimed, service);
  // A service that a user stopped before machined was restarted stays stopped.
  if (wasUnloaded || service.getState() == rpc::ServiceState::INITIALIZED) {
    supervisor.start(kTimed);
  }
}

void TimeService::disable(kj::StringPtr problem) {
  if (!loaded) return;
  loaded = false;
  wasUnloaded = true;
  supervisor.unload(kTimed, problem);
}

kj::Promise<TimeFollower::Answer> TimeService::check(kj::String server) {
  constexpr size_t kLongestName = 255;
  if (server.size() > kLongestName) {
    fail(ErrorKind::kInvalidArgument, "a time server must be an IP address or a DNS name");
  }
  return follower.check(kj::mv(server));
}

}  // namespace talos::machined
