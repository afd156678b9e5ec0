#include "machined/upgrade/upgrade-volumes.h"

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/disk/empty-partition.h"

namespace talos::machined {

kj::String partitionOfSystem(kj::ArrayPtr<const BlockDevice> devices, kj::StringPtr name) {
  auto on = [&](kj::StringPtr disk, kj::StringPtr label) -> kj::Maybe<const BlockDevice&> {
    for (auto& d : devices) {
      if (d.disk == disk && d.partitionName == label) return d;
    }
    return nullptr;
  };
  kj::Maybe<kj::StringPtr> disk;
  for (auto& d : devices) {
    if (d.partitionName != "STATE" || on(d.disk, "BOOT") == nullptr) continue;
    if (disk != nullptr) {
      fail(ErrorKind::kFailedPrecondition,
           "more than one disk has the partitions STATE and BOOT; remove those that are not this "
           "node's");
    }
    disk = d.disk.asPtr();
  }
  KJ_IF_MAYBE (chosen, disk) {
    KJ_IF_MAYBE (found, on(*chosen, name)) return found->node();
    fail(ErrorKind::kFailedPrecondition, kj::str("/dev/", *chosen, " has no partition ", name));
  }
  fail(ErrorKind::kFailedPrecondition, "no disk has the partitions STATE and BOOT");
}

kj::Promise<kj::String> UpgradePartitions::partition(kj::StringPtr name) {
  auto all = co_await devices();
  co_return partitionOfSystem(all, name);
}

kj::Promise<void> UpgradePartitions::empty(kj::String ephemeral) {
  return installer.clear(kj::mv(ephemeral), kEmptyHead);
}

kj::Promise<void> UpgradeFolders::empty(kj::String ephemeral) {
  return blocking([folder = kj::mv(ephemeral)]() { emptyFolder(folder); });
}

}  // namespace talos::machined
