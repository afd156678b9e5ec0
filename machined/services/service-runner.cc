#include "machined/services/service-runner.h"

#include <ctype.h>
#include <kj/debug.h>
#include <signal.h>

#include "common/base/error.h"
#include "common/base/node-messages.h"

namespace talos::machined {

ServiceRunner::ServiceRunner(ServiceSet& all, ServiceDefinition& definition, ServiceStatus& status)
    : all(all), definition(definition), status(status) {
  KJ_IF_MAYBE (b, definition.body) {
    body = kj::mv(*b);
  } else {
    auto process = kj::heap<ChildBody>(all.deps().process1, definition);
    child = *process;
    body = kj::mv(process);
  }
}

bool ServiceRunner::hasPreparation() const {
  return isContainer() || definition.prepare != nullptr || definition.prepareLast != nullptr;
}

kj::Promise<void> ServiceRunner::prepare() {
  auto turn = status.turn();
  status.preparing = true;
  KJ_DEFER(status.preparing = false);
  KJ_IF_MAYBE (first, definition.prepare) co_await (*first)(status.eventsOf(turn));
  co_await body->prepare(status.eventsOf(turn));
  KJ_IF_MAYBE (last, definition.prepareLast) co_await (*last)(status.eventsOf(turn));
}

kj::Promise<ServiceBody::Started> ServiceRunner::start() {
  auto& deps = all.deps();
  auto output = co_await deps.output(definition.id);
  Environment environment;
  KJ_IF_MAYBE (make, deps.environment) {
    environment = (*make)(definition.id, definition.environment);
  } else {
    environment = KJ_MAP(e, definition.environment) {
      return kj::str(e);
    };
  }
  co_return co_await body->start(kj::mv(environment), output.get());
}

kj::String ServiceRunner::startedMessage(ServiceBody::Started started) const {
  if (!started.adopted) return body->startedMessage(started.pid);
  return kj::str("Adopted running ", body->noun(), " (PID ", started.pid,
                 ") after a restart of machined");
}

void ServiceRunner::adopt(int survivor) {
  KJ_ASSERT_NONNULL(child).adopt(survivor);
}

kj::Promise<ServiceRunner::Found> ServiceRunner::find() {
  kj::Maybe<kj::String> problem;
  auto pid = co_await body->find().catch_([&](kj::Exception&& e) -> kj::Maybe<int> {
    problem = kj::str("Cannot look for ", definition.command, ": ", messageOf(e));
    return nullptr;
  });
  co_return Found{pid, kj::mv(problem)};
}

kj::Promise<kj::String> ServiceRunner::ended() {
  auto exit = co_await body->ended();
  lastExit = exit;
  auto crash = reportCrash();
  auto text = kj::str(describeEnd(exit), crash);
  co_await removeRemains();
  markMemoryKillsReported();  // a container's cgroup is removed with it
  co_return text;
}

bool ServiceRunner::isCompleted() const {
  switch (definition.restart) {
    case ServiceRestart::kAlways:
      return false;
    case ServiceRestart::kNever:
      return true;
    case ServiceRestart::kUntilSuccess:
      return lastExit.orDefault(-1) == 0;
  }
  KJ_UNREACHABLE;
}

kj::Promise<void> ServiceRunner::removeRemains() {
  return body->remove().catch_([&all = all](kj::Exception&& e) { all.failed(kj::mv(e)); });
}

kj::String ServiceRunner::describeEnd(kj::Maybe<int> exit) {
  auto noun = kj::str(body->noun());
  noun[0] = static_cast<char>(toupper(noun[0]));
  kj::Maybe<uint64_t> outOfMemory;
  if (countMemoryKills() > status.memoryKills) outOfMemory = definition.memoryMax;
  KJ_IF_MAYBE (s, exit) {
    return kj::str(noun, " (PID ", status.pid, ") ", describeExit(*s, outOfMemory));
  }
  return kj::str(noun, " (PID ", status.pid, ") is gone");
}

kj::String ServiceRunner::endedMeanwhile(kj::StringPtr crash) {
  bool killed = countMemoryKills() > status.memoryKills;
  return kj::str("Process ended while machined was away", killed ? " (killed: out of memory)" : "",
                 crash);
}

kj::String ServiceRunner::reportCrash() {
  KJ_IF_MAYBE (keep, all.deps().crashReport) {
    KJ_IF_MAYBE (id, (*keep)(definition.id)) return kj::str(messages::kCrashReport, *id);
  }
  return nullptr;
}

kj::Promise<void> ServiceRunner::signal(int number) {
  if (!self) return body->signal(number);
  KJ_SYSCALL(::kill(status.pid, number));
  return kj::READY_NOW;
}

void ServiceRunner::exited(Process1::Exit exit) {
  KJ_IF_MAYBE (c, child) c->exited(kj::mv(exit));
}

uint64_t ServiceRunner::countMemoryKills() {
  KJ_IF_MAYBE (count, all.deps().memoryKills) {
    if (definition.part == nullptr && !self) return (*count)(definition.cgroup);
  }
  return status.memoryKills;
}

void ServiceRunner::markMemoryKillsReported() {
  status.memoryKills = countMemoryKills();
}

}  // namespace talos::machined
