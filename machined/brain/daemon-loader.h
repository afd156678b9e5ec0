// Loads the daemons of the table (daemon-table.h) as services: those that are always wanted at
// once, another from the moment on that the resource is there that it is wanted with. Elsewhere
// there is no such service and nothing listens on its port.
//
// A door is opened once in the life of the machine and held by process 1; a new brain takes it up
// and adopts the service. A daemon that has been loaded stays until the machine goes down: what it
// is wanted with does not change without that, and a daemon without its inputs serves nobody.
#pragma once

#include <map>

#include "machined/brain/daemon-table.h"

namespace talos::machined {

class DaemonLoader {
 public:
  struct Dependencies {
    Supervisor& supervisor;
    DaemonParts parts;
    kj::Function<kj::Promise<kj::AutoCloseFd>(const Daemon&)> open;  // its door, if it has one
  };
  // `table` outlives it.
  DaemonLoader(kj::ArrayPtr<const Daemon> table, Dependencies deps)
      : table(table), deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(DaemonLoader);

  // Looks at the store now, and from then on at each change. Resolves when what is wanted already
  // is loaded.
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
  kj::Vector<kj::AutoCloseFd> doors;

  bool becomesWanted(const Daemon& daemon);
  kj::Promise<void> await(const Daemon& daemon);
  kj::Promise<void> load(const Daemon& daemon);
  kj::Promise<void> loadAndStart(const Daemon& daemon);
};

}  // namespace talos::machined
