// Maintenance mode of a machine without a config: it reports the reasons, shows a temporary
// certificate, and runs networkd and apid, so that an operator can apply a config. With a config it
// continues booting.
//
// Follows the decisions of the config manager; after a restart of the brain the manager decides
// again.
#pragma once

#include "machined/boot/machine-stage.h"
#include "machined/config/config-manager.h"
#include "machined/resources/controller-runtime.h"
#include "machined/services/supervisor.h"

namespace talos::machined {

class MaintenanceMode {
 public:
  MaintenanceMode(const ConfigManager& config, MachineStatus& status, Supervisor& supervisor,
                  ControllerRuntime& controllers)
      : config(config), status(status), supervisor(supervisor), controllers(controllers) {}
  KJ_DISALLOW_COPY_AND_MOVE(MaintenanceMode);

  // Called once, when services and controllers exist. Earlier changes take effect then.
  void begin();
  // Called when maintenance starts or ends, or its reasons change.
  void changed();

 private:
  const ConfigManager& config;
  MachineStatus& status;
  Supervisor& supervisor;
  ControllerRuntime& controllers;
  bool begun = false;
};

}  // namespace talos::machined
