// The power switch of one node of a local cluster: which run of it there is, and what may be done
// to it now.
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
// after its start, so that one that ends at once does not take a whole CPU. One that was told to
// stop is not. Everything is answered when it has happened. Time and how a run is made are passed
// in.
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/disks/instance.h"

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
  kj::StringPtr error() const { return why; }  // of a failed node

  // Throws what the table refuses, with kFailedPrecondition; kDeadlineExceeded for a stop that
  // takes too long, which goes on.
  kj::Promise<void> act(rpc::PowerAction action);

  // Ends it, if it runs, at once, and does not start it again. For the end of the supervisor:
  // nothing that it has written is lost.
  void cut();

 private:
  kj::Timer& timer;
  kj::String nodeName;
  kj::Function<kj::Own<Instance>()> make;
  kj::Duration stopWithin;
  State now = State::kOff;
  kj::String why;
  bool killed = false;    // by us: its end is no failure
  bool stopping = false;  // by us: its end is no reboot, though that may have begun before
  kj::TimePoint started;
  kj::Maybe<kj::Own<Instance>> instance;
  kj::Vector<kj::Own<kj::PromiseFulfiller<void>>> waiting;  // for the end
  kj::TaskSet runs;  // the one that there is; ended before what it uses

  void start();
  kj::Promise<void> run();
  kj::Promise<void> stop();
  kj::Promise<void> kill();
  kj::Promise<void> onOff();
  void become(State state, kj::String reason = {});
  [[noreturn]] void refuse(kj::StringPtr what);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::cluster
