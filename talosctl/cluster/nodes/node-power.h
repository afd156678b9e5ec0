// The power switch of one node of a local cluster: owns its current run, and decides which actions
// are allowed now.
//
//              running               paused                 off, failed
//   start      refused               refused: resume it     starts it
//   stop       orderly, then off     refused: resume it     refused
//   kill       off                   off                    refused
//   pause      paused                refused                refused
//   resume     refused               running                refused
//   reset      killed, then started  killed, then started   refused: start it
//
// A node that reboots is started again at once, or, if it ran for less than a second, a second
// after its start, so that one that exits at once does not use a whole CPU. A node that is being
// stopped is not. Every action resolves when it has happened. The timer and the function that
// starts a run are passed in.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/processes/node-instance.h"

namespace talos::cluster {

class NodePower final : private kj::TaskSet::ErrorHandler {
 public:
  enum class State { kOff, kRunning, kPaused, kFailed };

  // `stopWithin`: how long an orderly end may take.
  NodePower(kj::Timer& timer, kj::String name, kj::Function<kj::Own<Instance>()> make,
            kj::Duration stopWithin = 60 * kj::SECONDS);

  kj::StringPtr name() const { return nodeName; }
  State state() const { return now; }
  kj::StringPtr stateName() const;
  int pid() const;  // of the process on this host that it depends on; 0: it is off
  kj::StringPtr error() const { return failure; }  // of a failed node

  // Throws kFailedPrecondition for actions that the table refuses; kDeadlineExceeded for a stop
  // that takes too long, which continues.
  kj::Promise<void> act(rpc::PowerAction action);

  // Ends it at once, if it runs, and does not start it again. Nothing that it has written is lost.
  void cut();

 private:
  kj::Timer& timer;
  kj::String nodeName;
  kj::Function<kj::Own<Instance>()> make;
  kj::Duration stopWithin;
  State now = State::kOff;
  kj::String failure;
  bool killed = false;    // by an action: its exit is no failure
  bool stopping = false;  // by an action: its exit is no reboot, though one may have started before
  kj::TimePoint started;
  kj::Maybe<kj::Own<Instance>> instance;
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> waiting;  // for the end
  kj::TaskSet runs;  // the one that there is; ended before what it uses

  void start();
  kj::Promise<void> run();
  kj::Promise<void> stop();
  kj::Promise<void> kill();
  kj::Promise<void> onOff();
  void become(State state, kj::String error = {});
  [[noreturn]] void refuse(kj::StringPtr what);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::cluster
