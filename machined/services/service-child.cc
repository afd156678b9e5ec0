#include "machined/services/service-child.h"

#include <string.h>
#include <sys/wait.h>

#include "common/base/error.h"
#include "common/base/within.h"

namespace talos::machined {

Process1::SpawnRequest spawnRequest(const ServiceDefinition& definition, Environment environment,
                                    int output) {
  Process1::SpawnRequest request;
  request.slot = kj::str(definition.id);
  request.argv = KJ_MAP(a, definition.argv) {
    return kj::str(a);
  };
  request.environment = kj::mv(environment);
  request.cgroup = kj::str(definition.cgroup);
  request.stdoutFd = output;
  for (auto& s : definition.sockets) {
    request.passed.add(Process1::SpawnRequest::Passed{s.fd, s.as});
  }
  return request;
}

kj::Promise<kj::Maybe<kj::String>> checkOnce(HealthCheck& health, kj::Timer& timer) {
  using Problem = kj::Maybe<kj::String>;
  auto late = kj::str("no answer within ", health.timeout / kj::MILLISECONDS, " ms");
  return within(timer, health.timeout, kj::evalNow([&]() { return health.check(); }), kj::mv(late))
      .then([]() -> Problem { return nullptr; },
            [](kj::Exception&& e) -> Problem { return messageOf(e); });
}

kj::String describeExit(int status) {
  if (WIFSIGNALED(status)) {
    return kj::str("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  }
  return kj::str("exited with status ", WEXITSTATUS(status));
}

}  // namespace talos::machined
