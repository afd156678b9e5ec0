// Copies the log lines of all services to the console while the machine config has `debug: true`.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/logs/node-console.h"

namespace talos::machined {

class DebugConsole {
 public:
  DebugConsole(Store& store, MachineConfigReader& reader, Logs& logs, Console& console)
      : store(store), reader(reader), logs(logs), console(console) {}
  KJ_DISALLOW_COPY_AND_MOVE(DebugConsole);

  // Called once, for the lifetime of the logs. Lines of `self` are on the console in any case.
  void follow(kj::StringPtr self);

 private:
  Store& store;
  MachineConfigReader& reader;
  Logs& logs;
  Console& console;
  bool wanted = false;
  kj::Own<void> configChanged;

  void look();
};

}  // namespace talos::machined
