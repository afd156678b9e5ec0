// For tests: a node whose config is on trial.
#pragma once

#include "machined/config/test-config-manager.h"

namespace talos::machined {

// The node works with each config but those whose host name begins with "bad".
inline TrialFacts workOf(config::Config::Reader config) {
  TrialFacts facts;
  Duty work{kj::str(kNodeDuty)};
  if (config.getMachine().getNetwork().getHostname().startsWith("bad")) {
    work.problem = kj::str("it is not Ready");
  }
  facts.duties.add(kj::mv(work));
  return facts;
}

struct ChangeTrialTest : public ConfigManagerTest {
  ~ChangeTrialTest() noexcept override {}

  bool hasRecord() { return records.content != nullptr; }
  capnp::MallocMessageBuilder message;
  rpc::ConfigTrial::Reader trial() {
    auto out = message.initRoot<rpc::ConfigTrial>();
    brain().manager.changeTrial().fill(out);
    return out.asReader();
  }
  std::string stateOfTrial() {
    constexpr const char* kNames[] = {"none", "trying", "confirmed", "reverting", "reverted"};
    return kNames[static_cast<unsigned>(trial().getState())];
  }
  ModelBrain& works(ModelBrain& brain) {
    brain.facts = workOf;
    return brain;
  }
  kj::Promise<ConfigManager::Outcome> change(kj::StringPtr text, ApplyMode mode,
                                             bool callsAgain = false, bool noTrial = false,
                                             kj::Duration time = 1 * kj::MINUTES) {
    return brain().manager.apply({.document = kj::heapArray(text.asArray().slice(0, text.size())),
                                  .mode = mode,
                                  .changeTrial = time,
                                  .noTrial = noTrial,
                                  .callsAgain = callsAgain});
  }
  // Starts the node again, after a reboot or a power cut.
  void boot() {
    machine.drop();
    works(start());
    load();
    settle();
  }
  // Lets time pass in steps of a second; reboots when the node wants to.
  void live(kj::Duration time) {
    for (auto end = timer.now() + time; timer.now() < end;) {
      pass(1 * kj::SECONDS);
      if (brain().reboots > 0) boot();
    }
  }
};

}  // namespace talos::machined
