// Fixture of the tests of the supervisor: a process 1 that a test drives, and time that passes when
// a test says so.
#pragma once

#include <capnp/message.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"
#include "machined/process1/test-process1.h"
#include "machined/services/service-lifecycle.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

struct Flag final : public Condition {
  bool value = false;
  kj::String description() const override { return kj::str("flag to be set"); }
  bool met() const override { return value; }
};
struct FlagRef final : public Condition {
  explicit FlagRef(Flag& f) : flag(f) {}
  kj::String description() const override { return flag.description(); }
  bool met() const override { return flag.met(); }
  Flag& flag;
};

struct TestSwitches final : public DebugSwitches {
  rpc::LogLevel level(kj::StringPtr service) const override {
    return service == "a" ? ofA : rpc::LogLevel::INFO;
  }
  void setLevel(kj::StringPtr service, rpc::LogLevel level) override {
    if (service != "a") fail(ErrorKind::kFailedPrecondition, "only a has a level");
    ofA = level;
  }
  bool keepsCores(kj::StringPtr service) const override { return service == "a" && coresOfA; }
  void setKeepsCores(kj::StringPtr service, bool keep) override {
    if (service != "a") fail(ErrorKind::kFailedPrecondition, "only a leaves cores");
    coresOfA = keep;
  }
  rpc::LogLevel ofA = rpc::LogLevel::INFO;
  bool coresOfA = false;
};

class SupervisorTest : public testing::Test, public kj::Clock {
 protected:
  kj::Date now() const override {
    return kj::UNIX_EPOCH + (timer.now() - kj::origin<kj::TimePoint>());
  }

  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  FakeMachine machine;
  std::vector<std::string> events;  // "id State message"
  kj::StringPtr configured = "";    // value of a variable of every service
  uint64_t memoryKills = 0;         // count for every cgroup
  kj::Maybe<kj::String> crash;      // ID of the report that the next exit leaves
  TestSwitches switches;
  kj::Own<FakeProcess1> process1;
  kj::Own<Supervisor> supervisor;

  SupervisorTest() { startBrain(); }
  ~SupervisorTest() noexcept override {
    supervisor = nullptr;
    process1 = nullptr;
  }

  void startBrain() {
    process1 = kj::heap<FakeProcess1>(machine);
    supervisor = kj::heap<Supervisor>(Supervisor::Dependencies{
        .process1 = *process1,
        .timer = timer,
        .clock = *this,
        .random = []() { return 0.0; },
        .output = [](kj::StringPtr) -> kj::Promise<kj::AutoCloseFd> {
          return kj::AutoCloseFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
        },
        .announce =
            [this](rpc::ServiceStateEvent::Reader e) {
              events.push_back(
                  kj::str(e.getService(), " ", nameOf(e.getState()), " ", e.getMessage()).cStr());
            },
        .environment =
            kj::Function<kj::Array<kj::String>(kj::StringPtr, kj::ArrayPtr<const kj::String>)>(
                [this](kj::StringPtr id, kj::ArrayPtr<const kj::String> own) {
                  return kj::arr(kj::str(id, own.size()), kj::str(configured));
                }),
        .memoryKills =
            kj::Function<uint64_t(kj::StringPtr)>([this](kj::StringPtr) { return memoryKills; }),
        .crashReport = kj::Function<kj::Maybe<kj::String>(kj::StringPtr)>([this](kj::StringPtr) {
          auto report = kj::mv(crash);
          crash = nullptr;
          return report;
        }),
        .switches = switches});
  }
  void crashBrain() {
    run();
    supervisor = nullptr;
    process1 = nullptr;
    events.clear();
    startBrain();
  }

  void run() { scope.poll(); }
  void advance(kj::Duration d) { talos::advance(timer, scope, d); }

  ServiceDefinition define(kj::StringPtr id, std::initializer_list<kj::StringPtr> dependsOn = {}) {
    ServiceDefinition d;
    d.id = kj::str(id);
    d.command = kj::str("/usr/bin/", id);
    d.argv = kj::arr(kj::str("/usr/bin/", id));
    d.cgroup = kj::str("system/", id);
    for (auto on : dependsOn) d.dependsOn.add(kj::str(on));
    return d;
  }
  // Returns a service that its callers depend on.
  ServiceDefinition carrier(kj::StringPtr id) {
    auto d = define(id);
    d.carriesApi = true;
    return d;
  }
  rpc::ServiceState state(kj::StringPtr id) {
    capnp::MallocMessageBuilder m;
    auto s = m.initRoot<rpc::Service>();
    supervisor->fill(id, s);
    return s.getState();
  }
  // Returns true if the promise is done; a rejection is a test failure.
  bool done(kj::Promise<void>& p) {
    run();
    if (!p.poll(scope)) return false;
    p.wait(scope);
    return true;
  }
};

}  // namespace talos::machined
