// awaitSystemDisk (initialize, systemDisk): waits for the disk of a system that a boot loader
// started from a slot.
#include "machined/boot/tasks/system-disk-wait.h"

#include "common/disk/boot-slots.h"
#include "common/kernel/kernel-arguments.h"
#include "machined/boot/tasks/task.h"
#include "machined/disk/installer/partition-layout.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

bool hasSystemDisk(kj::ArrayPtr<const BlockDevice> devices) {
  for (auto& boot : devices) {
    if (boot.partitionName != install::kBoot) continue;
    for (auto& last : devices) {
      // Also the partition of an installation that was cut after its boot loader was written.
      if (last.disk == boot.disk && last.partitionName.startsWith(install::kEphemeral)) return true;
    }
  }
  return false;
}

kj::Promise<void> awaitSystemDisk(kj::Timer& timer, kj::Function<kj::Promise<bool>()> isThere,
                                  kj::Function<void(kj::StringPtr line)> report) {
  auto what = kj::str("the disk that this system was started from");
  if (co_await awaitDisk(timer, kj::mv(what), kj::mv(isThere), report)) co_return;
  report(kj::str("warning: no disk with the partitions ", install::kBoot, " and ",
                 install::kEphemeral, " has appeared within ", kDiskWait / kj::SECONDS, " s"));
}

namespace tasks {
namespace {

kj::Promise<void> waitForDisk(UvLoop& uv, kj::Timer& timer, Console& console,
                              const KernelArguments& arguments) {
  if (install::slotNamed(arguments.first("talos.slot").orDefault("")) == nullptr) co_return;
  auto isThere = [&uv]() {
    return uv.blocking([]() { return hasSystemDisk(readBlockDevices()); });
  };
  co_await machined::awaitSystemDisk(timer, isThere,
                                     [&console](kj::StringPtr line) { console.say(line); });
}

}  // namespace

extern const BootTask awaitSystemDisk = task<waitForDisk>("awaitSystemDisk");

}  // namespace tasks
}  // namespace talos::machined
