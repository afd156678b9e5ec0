// The part of machined that thinks: an ordinary child of process 1 that may die at any line.
//
// It owns the store, the logs, the events, the controllers, the services and the sequences of this
// machine, and serves them on /run/talos/machined.sock. Whatever has to outlive it is in process
// 1's keeping: listening sockets ("listen/<service>"), log rings, the store's journal, the
// histories of services, and how far the machine has come ("progress"). A new brain takes all that
// up, adopts the services that run, and goes on with the sequence that its predecessor was in, from
// that sequence's start.
//
// A sequence that fails leaves the machine as it is: stage `failed`, reasons on the console, in
// Machine.status() and in the resource MachineStatuses/machine; the API stays up, and nothing
// reboots.
#pragma once

#include <kj/async-io.h>

#include "machined/process1/process1.h"

namespace talos::machined {

class Brain {
 public:
  // `process1` has been told the inventory already.
  Brain(kj::AsyncIoContext& io, Process1& process1);
  ~Brain() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Brain);

  // Does not end but by an exception: then the process should, and process 1 starts another.
  kj::Promise<void> run();

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
