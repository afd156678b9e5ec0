// Loads the daemons of the table (daemon-table.h) as services: at once those that are always
// wanted, the others as soon as their resource exists. Until then the service does not exist, and
// nothing listens on its port.
//
// A socket is opened once in the machine's life and held by process 1; a new brain takes the socket
// over and adopts the service. A loaded daemon stays until the machine shuts down: the resource
// that it is wanted with is removed only then, and a daemon without its inputs serves no client.
#pragma once

#include <kj/function.h>

#include <map>
#include <set>

#include "common/kernel/kernel-arguments.h"
#include "machined/brain/daemon-table.h"
#include "machined/brain/held-sockets.h"

namespace talos::machined {

// Limits the daemons of a node in a container, for a developer who examines one of them: only the
// daemons in the argument talos.debug.services=networkd,vipd run, and the daemons that must start
// before them. Outside of containers the argument has no meaning. Pure.

// Returns ids; nullptr: all daemons of the table. An unknown name is reported to `warn`, and
// chooses nothing.
kj::Maybe<std::set<kj::StringPtr>> chosenDaemons(const KernelArguments& arguments,
                                                 kj::ArrayPtr<const Daemon> table,
                                                 kj::FunctionParam<void(kj::StringPtr)> warn);

class DaemonLoader {
 public:
  struct Dependencies {
    Supervisor& supervisor;
    DaemonDependencies daemon;
    kj::Function<kj::Promise<kj::AutoCloseFd>(const Daemon&)> open;  // its socket, if it has one
    kj::Function<kj::Promise<KeptPair>(const Daemon&)> openPair;     // if it keeps descriptors
    kj::Function<kj::Promise<int>(kj::StringPtr id)> openPage;       // of a program of ours
    kj::Maybe<std::set<kj::StringPtr>> chosen = nullptr;  // only these; nullptr: all of the table
  };
  // `table` must outlive it.
  DaemonLoader(kj::ArrayPtr<const Daemon> table, Dependencies deps)
      : table(table), deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(DaemonLoader);

  // Checks the store now and at each change. Resolves when the daemons that are wanted now are
  // loaded.
  kj::Promise<void> follow();

 private:
  kj::ArrayPtr<const Daemon> table;
  Dependencies deps;
  struct Waiting {
    kj::Own<void> change;
    bool wanted = false;
    kj::Promise<void> loading = nullptr;
  };
  std::map<const Daemon*, Waiting> waiting;
  kj::Vector<kj::AutoCloseFd> sockets;

  bool becomesWanted(const Daemon& daemon);
  kj::Promise<void> await(const Daemon& daemon);
  kj::Promise<void> load(const Daemon& daemon);
  kj::Promise<void> loadAndStart(const Daemon& daemon);
};

}  // namespace talos::machined
