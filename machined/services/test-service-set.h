// The set of services that a test of one part of a service sees: a process 1 that a test can crash,
// a clock that stands still, and other services by their names.
#pragma once

#include <gtest/gtest.h>
#include <kj/async.h>

#include <set>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/signal.h"
#include "machined/process1/test-process1.h"
#include "machined/services/service-lifecycle.h"
#include "machined/services/service-work.h"

namespace talos::machined {

class TestServiceSet final : public ServiceSet,
                             private kj::Clock,
                             private kj::TaskSet::ErrorHandler {
 public:
  explicit TestServiceSet(FakeMachine& machine)
      : process1(machine),
        dependencies{
            .process1 = process1,
            .timer = timer,
            .clock = *this,
            .random = []() { return 0.0; },
            .output = [](kj::StringPtr) -> kj::Promise<kj::AutoCloseFd> {
              return error(ErrorKind::kInternal, "no output");
            },
            .announce =
                [this](rpc::ServiceStateEvent::Reader e) {
                  events.push_back(kj::str(nameOf(e.getState()), " ", e.getMessage()).cStr());
                }},
        aside(*this) {}

  std::set<std::string> up, starting;
  std::vector<std::string> events;  // "State message"

  Supervisor::Dependencies& deps() override { return dependencies; }
  kj::TaskSet& tasks() override { return aside; }
  void failed(kj::Exception&& e) override { taskFailed(kj::mv(e)); }
  bool closed() const override { return false; }
  bool isUp(kj::StringPtr id) const override { return up.count(id.cStr()) > 0; }
  bool isStarting(kj::StringPtr id) const override { return starting.count(id.cStr()) > 0; }
  kj::Promise<void> change() override { return changes.next(); }
  void changed() override { changes.raise(); }

 private:
  FakeProcess1 process1;
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Supervisor::Dependencies dependencies;
  Signal changes;
  kj::TaskSet aside;

  kj::Date now() const override { return kj::UNIX_EPOCH; }
  void taskFailed(kj::Exception&& e) override { ADD_FAILURE() << kj::str(e).cStr(); }
};

}  // namespace talos::machined
