// A model of process 1 for tests of the brain: no processes, only its own descriptors.
//
// FakeMachine outlives a brain: children, unacknowledged exits, held descriptors. FakeProcess1 is
// one brain's connection to it: destroying it and making another one on the same machine is a crash
// of the brain. The model keeps the promises of process1.h exactly; process1-test.cc runs the same
// checks on it and on the real process 1, so that they cannot diverge.
#pragma once

#include <fcntl.h>
#include <kj/debug.h>
#include <signal.h>
#include <unistd.h>

#include <list>

#include "common/base/error.h"
#include "machined/process1/process1.h"

namespace talos::machined {

class FakeMachine {
 public:
  struct Child {
    kj::String slot;
    kj::Array<kj::String> argv;
    kj::Array<kj::String> environment;
    kj::String cgroup;
    uint64_t memoryMax = 0;
    int pid = 0;
    kj::Maybe<kj::AutoCloseFd> output;  // a duplicate of stdoutFd, for the output of the child
    struct Passed {
      kj::AutoCloseFd fd;
      int as;
    };
    kj::Vector<Passed> passed;
    kj::Vector<int> signals;   // received signals that did not end it
    kj::AutoCloseFd aliveEnd;  // closed by exit(): makes the model pidfds readable
    kj::AutoCloseFd watchEnd;
  };

  // Signals that end a child. Default: SIGTERM, SIGKILL; clear or change as the test needs.
  kj::Function<bool(const Child&, int signal)> diesOf = [](const Child&, int signal) {
    return signal == SIGTERM || signal == SIGKILL;
  };
  // If set, the next spawn fails with it.
  kj::Maybe<kj::String> failNextSpawn;
  // If set, the next spawn is answered only when this resolves; its child runs before.
  kj::Maybe<kj::Promise<void>> spawnGate;
  // Called when an exit is acknowledged, and so not reported to the next brain.
  kj::Function<void()> onAcknowledged = []() {};
  // Command of reboot().
  kj::Maybe<unsigned> rebooted;
  // Number of spawns, including those that failed.
  unsigned spawns = 0;

  bool runs(kj::StringPtr slot) const { return find(slot) != nullptr; }
  Child& child(kj::StringPtr slot) {
    auto* found = const_cast<Child*>(find(slot));
    KJ_REQUIRE(found != nullptr, "no child runs in this slot", slot);
    return *found;
  }
  size_t childCount() const { return children.size(); }

  // Ends the child with a status as of wait(2): code << 8, or a signal's number.
  void exit(kj::StringPtr slot, int status) {
    for (auto it = children.begin(); it != children.end(); ++it) {
      if (it->slot == slot) {
        exits.push_back(Process1::Exit{kj::str(slot), it->pid, status});
        children.erase(it);
        wake();
        return;
      }
    }
    KJ_FAIL_REQUIRE("no child runs in this slot", slot);
  }

  // Presses the power button, or requests a reboot.
  void requestPowerAction(Process1::PowerAction what) {
    pendingActions.push_back(what);
    wake();
  }

  bool holds(kj::StringPtr name) const {
    for (auto& h : held) {
      if (h.name == name) return true;
    }
    return false;
  }
  // Number of holds: how often a journal was replaced, for example.
  unsigned holdCount = 0;
  // If set, the next hold() takes effect, and is answered, only when this resolves.
  kj::Maybe<kj::Promise<void>> holdGate;
  // If set, the next drop() takes effect at once, and is answered when this resolves.
  kj::Maybe<kj::Promise<void>> dropReply;

  // Drops all held descriptors, as another boot does.
  void drop() { held.clear(); }
  // Returns or sets a held descriptor, as a predecessor would.
  int heldFd(kj::StringPtr name) const {
    for (auto& h : held) {
      if (h.name == name) return h.fd;
    }
    KJ_FAIL_REQUIRE("nothing is held under this name", name);
  }
  void keep(kj::StringPtr name, kj::AutoCloseFd fd) {
    for (auto& h : held) {
      if (h.name == name) {
        h.fd = kj::mv(fd);
        return;
      }
    }
    held.push_back(Held{kj::str(name), kj::mv(fd)});
  }
  static kj::AutoCloseFd duplicate(int fd) {
    int copy;
    KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), fd);
    return kj::AutoCloseFd(copy);
  }

 private:
  friend class FakeProcess1;
  struct Held {
    kj::String name;
    kj::AutoCloseFd fd;
  };
  std::list<Child> children;
  std::list<Process1::Exit> exits;  // the first one may be delivered but is not acknowledged
  std::list<Held> held;
  int nextPid = 100;
  unsigned brains = 0;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<Process1::Exit>>> waiting;
  bool delivered = false;  // exits.front() was given to the current brain
  std::list<Process1::PowerAction>
      pendingActions;            // the first one may be delivered but is not begun
  bool actionDelivered = false;  // pendingActions.front() was given to the current brain
  kj::Maybe<kj::Own<kj::PromiseFulfiller<Process1::PowerAction>>> actionWaiter;

  const Child* find(kj::StringPtr slot) const {
    for (auto& c : children) {
      if (c.slot == slot) return &c;
    }
    return nullptr;
  }
  void wake() {
    if (!pendingActions.empty() && !actionDelivered) {
      KJ_IF_MAYBE (w, actionWaiter) {
        auto fulfiller = kj::mv(*w);
        actionWaiter = nullptr;
        actionDelivered = true;
        fulfiller->fulfill(kj::cp(pendingActions.front()));
      }
    }
    if (exits.empty() || delivered) return;
    KJ_IF_MAYBE (w, waiting) {
      auto& e = exits.front();
      delivered = true;
      auto fulfiller = kj::mv(*w);
      waiting = nullptr;
      fulfiller->fulfill(Process1::Exit{kj::str(e.slot), e.pid, e.status});
    }
  }
};

class FakeProcess1 final : public Process1 {
 public:
  explicit FakeProcess1(FakeMachine& machine) : machine(machine), restarts(machine.brains++) {
    for (auto& c : machine.children) {
      survivors.add(Survivor{kj::str(c.slot), c.pid, FakeMachine::duplicate(c.watchEnd.get())});
    }
    for (auto& h : machine.held) {
      offered.add(Offered{kj::str(h.name), FakeMachine::duplicate(h.fd.get())});
    }
    machine.delivered = machine.actionDelivered = false;
  }
  ~FakeProcess1() noexcept(false) {
    machine.waiting = nullptr;
    machine.actionWaiter = nullptr;
  }
  KJ_DISALLOW_COPY_AND_MOVE(FakeProcess1);

  kj::Promise<Started> spawn(SpawnRequest request) override {
    ++machine.spawns;
    KJ_IF_MAYBE (message, machine.failNextSpawn) {
      auto e = error(ErrorKind::kInternal, *message);
      machine.failNextSpawn = nullptr;
      return e;
    }
    if (machine.runs(request.slot)) {
      return error(ErrorKind::kConflict,
                   kj::str("a child already runs in slot \"", request.slot, "\""));
    }
    FakeMachine::Child c;
    c.pid = machine.nextPid++;
    if (request.stdoutFd >= 0) c.output = FakeMachine::duplicate(request.stdoutFd);
    for (auto& p : request.passed) {
      c.passed.add(FakeMachine::Child::Passed{FakeMachine::duplicate(p.fd), p.as});
    }
    c.slot = kj::mv(request.slot);
    c.argv = kj::mv(request.argv);
    c.environment = kj::mv(request.environment);
    c.cgroup = kj::mv(request.cgroup);
    c.memoryMax = request.memoryMax;
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
    c.watchEnd = kj::AutoCloseFd(ends[0]);
    c.aliveEnd = kj::AutoCloseFd(ends[1]);
    Started started{c.pid, FakeMachine::duplicate(ends[0])};
    machine.children.push_back(kj::mv(c));
    KJ_IF_MAYBE (gate, machine.spawnGate) {
      auto late =
          gate->then([started = kj::mv(started)]() mutable -> Started { return kj::mv(started); });
      machine.spawnGate = nullptr;
      return kj::mv(late);
    }
    return kj::mv(started);
  }

  void signal(kj::StringPtr slot, int number) override {
    if (!machine.runs(slot)) return;
    auto& c = machine.child(slot);
    if (machine.diesOf(c, number)) {
      machine.exit(slot, number);
    } else {
      c.signals.add(number);
    }
  }

  kj::Promise<Exit> nextExit() override {
    if (machine.delivered) {
      machine.exits.pop_front();
      machine.delivered = false;
      machine.onAcknowledged();
    }
    auto paf = kj::newPromiseAndFulfiller<Exit>();
    machine.waiting = kj::mv(paf.fulfiller);
    machine.wake();
    return kj::mv(paf.promise);
  }

  kj::Promise<void> hold(kj::StringPtr name, int fd) override {
    ++machine.holdCount;
    auto copy = FakeMachine::duplicate(fd);
    KJ_IF_MAYBE (gate, machine.holdGate) {
      auto promise =
          gate->then([&machine = machine, name = kj::str(name), copy = kj::mv(copy)]() mutable {
            machine.keep(name, kj::mv(copy));
          });
      machine.holdGate = nullptr;
      return promise;
    }
    machine.keep(name, kj::mv(copy));
    return kj::READY_NOW;
  }
  kj::Promise<void> drop(kj::StringPtr name) override {
    machine.held.remove_if([&](auto& h) { return h.name == name; });
    KJ_IF_MAYBE (reply, machine.dropReply) {
      auto promise = kj::mv(*reply);
      machine.dropReply = nullptr;
      return promise;
    }
    return kj::READY_NOW;
  }

  kj::Vector<Survivor> takeSurvivors() override { return kj::mv(survivors); }
  kj::Maybe<kj::AutoCloseFd> takeHeld(kj::StringPtr name) override {
    for (auto& o : offered) {
      if (o.name == name && o.fd.get() >= 0) return kj::mv(o.fd);
    }
    return nullptr;
  }
  kj::Vector<kj::String> heldNames() override {
    kj::Vector<kj::String> names;
    for (auto& o : offered) {
      if (o.fd.get() >= 0) names.add(kj::str(o.name));
    }
    return names;
  }
  unsigned brainRestarts() const override { return restarts; }

  kj::Promise<PowerAction> nextPowerAction() override {
    if (machine.actionDelivered) {
      machine.pendingActions.pop_front();
      machine.actionDelivered = false;
    }
    auto paf = kj::newPromiseAndFulfiller<PowerAction>();
    machine.actionWaiter = kj::mv(paf.fulfiller);
    machine.wake();
    return kj::mv(paf.promise);
  }

  kj::Promise<void> reboot(unsigned command) override {
    machine.rebooted = command;
    return kj::NEVER_DONE;
  }

 private:
  struct Offered {
    kj::String name;
    kj::AutoCloseFd fd;
  };
  FakeMachine& machine;
  unsigned restarts;
  kj::Vector<Survivor> survivors;
  kj::Vector<Offered> offered;
};

}  // namespace talos::machined
