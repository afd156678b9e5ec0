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
// A node that reboots is started again at once. If it ran for less than a second, it is started a
// second after its previous start, so that a node that exits at once does not use a whole CPU. A
// node that is being stopped is not started again. Every action resolves when it has completed. The
// timer and the function that starts a run are arguments.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/processes/node-instance.h"

namespace talos::cluster {

class NodePower final : private kj::TaskSet::ErrorHandler {
 public:
  enum class State {
    kOff,      // next: kRunning, kFailed
    kRunning,  // next: kPaused, kOff, kFailed; a reboot stays in this state
    kPaused,   // next: kRunning, kOff, kFailed
    kFailed,   // did not start, or ended with an error. Next: kRunning
  };

  // `stopWithin`: limit of an orderly shutdown.
  NodePower(kj::Timer& timer, kj::String name, kj::Function<kj::Own<Instance>()> make,
            kj::Duration stopWithin = 60 * kj::SECONDS);

  kj::StringPtr name() const { return nodeName; }
  State state() const { return now; }
  kj::StringPtr stateName() const;
  int pid() const;  // pid of the process on this host that runs the node; 0: the node is off
  kj::StringPtr error() const { return failure; }  // error of a failed node

  // Performs an action. Throws kFailedPrecondition for actions that the table refuses, and
  // kDeadlineExceeded for a stop that takes too long, which continues.
  kj::Promise<void> act(rpc::PowerAction action);

  // Ends the node's run at once, if there is one, and does not start it again. All data that it has
  // written is kept.
  void cut();

 private:
  kj::Timer& timer;
  kj::String nodeName;
  kj::Function<kj::Own<Instance>()> make;
  kj::Duration stopWithin;
  State now = State::kOff;
  kj::String failure;
  bool killed = false;  // an action killed it: its exit is no failure
  // An action stops it: its exit is no reboot, even if a reboot was in progress.
  bool stopping = false;
  kj::TimePoint started;
  kj::Maybe<kj::Own<Instance>> instance;
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> waiting;  // calls that wait for the end
  kj::TaskSet runs;  // the current run; destroyed before the objects that it uses

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
