#include "machined/disk/devices/device-drivers.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/base/log.h"

namespace talos::machined {
namespace {

// Includes buses on which disks or cards appear later (HotplugDrivers): a machine may have no
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

namespace {

// A controller reports its devices one by one; the index of the modules is read once for all of
// them.
constexpr auto kGathering = 50 * kj::MILLISECONDS;
constexpr size_t kMostNew = 256;  // beyond this, all devices are looked at
constexpr size_t kMostBytes = 1024;

}  // namespace

kj::Maybe<kj::StringPtr> modaliasOfNewDevice(kj::ArrayPtr<const char> uevent) {
  kj::Maybe<kj::StringPtr> modalias;
  bool added = false;
  while (uevent.size() > 0) {
    auto end = std::find(uevent.begin(), uevent.end(), '\0');
    if (end == uevent.end()) break;  // cut off
    kj::StringPtr field(uevent.begin(), end - uevent.begin());
    if (field == "ACTION=add") added = true;
    constexpr auto kKey = "MODALIAS="_kj;
    if (field.startsWith(kKey)) modalias = field.slice(kKey.size());
    uevent = uevent.slice(field.size() + 1, uevent.size());
  }
  KJ_IF_MAYBE (text, modalias) {
    // Skips modaliases of processors, like the boot: the kernel requests the cipher that it uses
    // itself.
    bool counts = text->size() > 0 && text->size() <= kMostBytes && !text->startsWith("cpu:");
    if (added && counts) return *text;
  }
  return nullptr;
}

HotplugDrivers::HotplugDrivers(kj::UnixEventPort& port, kj::Timer& timer, bool all, Load load)
    : timer(timer), load(kj::mv(load)), events(port), running(run(all).eagerlyEvaluate(nullptr)) {}

void HotplugDrivers::collect() {
  bool complete = events.drain([this](kj::ArrayPtr<const char> event) {
    KJ_IF_MAYBE (modalias, modaliasOfNewDevice(event)) {
      auto& list = found.modaliases;
      if (std::find(list.begin(), list.end(), *modalias) != list.end()) return;
      if (list.size() < kMostNew) {
        list.add(kj::str(*modalias));
      } else {
        found.all = true;
      }
    }
  });
  if (!complete) found.all = true;
}

kj::Promise<void> HotplugDrivers::run(bool all) {
  found.all = all;
  for (;;) {
    // Before the look: the observer is edge-triggered.
    auto readable = events.whenReadable();
    collect();
    if (found.modaliases.empty() && !found.all) {
      co_await readable;
      continue;
    }
    co_await timer.afterDelay(kGathering);
    collect();
    auto devices = kj::mv(found);
    found = {};
    kj::Maybe<kj::Exception> failure;
    co_await load(kj::mv(devices)).catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      log::warn("cannot load the drivers of new devices", {{"error", messageOf(*e)}});
    }
  }
}

}  // namespace talos::machined
