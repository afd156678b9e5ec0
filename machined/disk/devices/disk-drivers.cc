#include "machined/disk/devices/disk-drivers.h"

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"

namespace talos::machined {
namespace {

// Includes buses on which disks or cards appear later (hotplug-drivers.h): a machine may have no
// other buses.
constexpr kj::StringPtr kControllers[] = {
    "kernel/drivers/block/"_kj,    "kernel/drivers/ata/"_kj, "kernel/drivers/scsi/"_kj,
    "kernel/drivers/nvme/"_kj,     "kernel/drivers/mmc/"_kj, "kernel/drivers/message/"_kj,
    "kernel/drivers/usb/host/"_kj, "kernel/drivers/hv/"_kj,  "kernel/drivers/pci/controller/"_kj};
constexpr kj::StringPtr kCdrom = "scsi:t-0x05"_kj;  // the peripheral device type of SPC

}  // namespace

void loadDiskDrivers(const Modules& modules, kj::Function<void(kj::StringPtr)> failed,
                     kj::StringPtr sys) {
  modules.coldplug([&](kj::StringPtr problem) { failed(problem); }, kControllers,
                   kj::str(sys, "/devices"));
  // When the loading of a controller's driver returns, the kernel has looked for the controller's
  // devices.
  loadScsiDrivers(modules, false, failed, sys);
}

void loadScsiDrivers(const Modules& modules, bool cdroms, kj::Function<void(kj::StringPtr)>& failed,
                     kj::StringPtr sys) {
  auto path = kj::str(sys, "/bus/scsi/devices");
  for (auto& name : namesIn(path)) {  // none without such a controller
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   KJ_IF_MAYBE (text, tryReadFile(kj::str(path, "/", name, "/modalias"))) {
                     auto alias = firstLine(*text);
                     if (cdroms || !alias.startsWith(kCdrom)) modules.load(alias);
                   }
                 })) {
      failed(messageOf(*e));
    }
  }
}

}  // namespace talos::machined
