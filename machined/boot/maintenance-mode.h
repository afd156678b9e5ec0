// What a machine without a config does: it says so and why, shows a throw-away certificate, and
// runs networkd and apid, so that somebody can bring it a config. With one it goes on booting.
//
// Follows the keeper of the config, which decides; a new brain is told by it again.
#pragma once

#include "machined/boot/machine-stage.h"
#include "machined/config/config-manager.h"
#include "machined/resources/controller-runtime.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

class MaintenanceMode {
 public:
  MaintenanceMode(const ConfigKeeper& config, MachineStatus& status, Supervisor& supervisor,
                  ControllerRuntime& controllers)
      : config(config), status(status), supervisor(supervisor), controllers(controllers) {}
  KJ_DISALLOW_COPY_AND_MOVE(MaintenanceMode);

  // Once, when there are services and controllers. What was changed before that counts from here.
  void begin();
  // It begins or ends, or its reasons are others.
  void changed();

 private:
  const ConfigKeeper& config;
  MachineStatus& status;
  Supervisor& supervisor;
  ControllerRuntime& controllers;
  bool begun = false;
};

// The services by which a machine is reached.
void startApi(Supervisor& supervisor);

}  // namespace talos::machined
