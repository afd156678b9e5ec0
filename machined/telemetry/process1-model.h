// A model of process 1 for tests: keeps what it is given; each new brain gets duplicates of it.
#pragma once

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/map.h>

#include "machined/process1.h"

namespace talos::machined {

class ModelProcess1 final : public Process1 {
 public:
  kj::TreeMap<kj::String, kj::AutoCloseFd> held;
  kj::Maybe<kj::Promise<void>>
      holdGate;  // when set, the next hold() is done only when this resolves
  unsigned holds = 0;

  static kj::AutoCloseFd duplicate(int fd) {
    int copy;
    KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 3));
    return kj::AutoCloseFd(copy);
  }

  kj::Promise<Started> spawn(SpawnRequest) override {
    KJ_UNIMPLEMENTED("the model starts nothing");
  }
  void signal(kj::StringPtr, int) override {}
  kj::Promise<Exit> nextExit() override { return kj::NEVER_DONE; }
  kj::Promise<void> hold(kj::StringPtr name, int fd) override {
    ++holds;
    auto keep = [this, name = kj::str(name), fd = duplicate(fd)]() mutable {
      held.upsert(kj::mv(name), kj::mv(fd), [](auto& old, auto&& fresh) { old = kj::mv(fresh); });
    };
    KJ_IF_MAYBE (gate, holdGate) {
      auto promise = gate->then(kj::mv(keep));
      holdGate = nullptr;
      return promise;
    }
    keep();
    return kj::READY_NOW;
  }
  kj::Promise<void> drop(kj::StringPtr name) override {
    held.erase(name);
    return kj::READY_NOW;
  }
  kj::Vector<Survivor> takeSurvivors() override { return {}; }
  kj::Maybe<kj::AutoCloseFd> takeHeld(kj::StringPtr name) override {
    KJ_IF_MAYBE (fd, held.find(name)) {
      return duplicate(*fd);
    }
    return nullptr;
  }
  kj::Vector<kj::String> heldNames() override {
    kj::Vector<kj::String> names;
    for (auto& entry : held) names.add(kj::str(entry.key));
    return names;
  }
  unsigned brainRestarts() const override { return 0; }
  kj::Promise<void> reboot(unsigned) override { return kj::NEVER_DONE; }
};

}  // namespace talos::machined
