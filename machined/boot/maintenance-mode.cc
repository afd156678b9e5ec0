#include "machined/boot/maintenance-mode.h"

namespace talos::machined {

void MaintenanceMode::begin() {
  begun = true;
  if (config.inMaintenance()) changed();
}

void MaintenanceMode::changed() {
  if (!begun || status.stage() == MachineStatus::Stage::FAILED) return;  // FAILED stays
  controllers.poke("secrets.ApiController");
  if (!config.inMaintenance()) {
    status.set(MachineStatus::Stage::BOOTING);
    return;
  }
  kj::Vector<kj::String> reasons;
  for (auto& line : config.maintenanceReasons()) reasons.add(kj::str(line));
  status.set(MachineStatus::Stage::MAINTENANCE, kj::mv(reasons));
  startApi(supervisor);
}

}  // namespace talos::machined
