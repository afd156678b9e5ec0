#include "machined/install/user-disk.h"

#include "common/base/error.h"
#include "common/disk/empty-head.h"
#include "machined/install/disk.h"

namespace talos::install {
namespace {

uint64_t roundedUp(uint64_t bytes) {
  return (bytes + kMiB - 1) / kMiB * kMiB;
}

[[noreturn]] void refuse(kj::StringPtr disk, kj::StringPtr why) {
  fail(ErrorKind::kFailedPrecondition, kj::str("machine.disks: ", disk, " cannot be used: ", why));
}

}  // namespace

gpt::Table userLayout(kj::ArrayPtr<const uint64_t> sizes, uint64_t diskBytes, unsigned sectorSize) {
  gpt::Table table{gpt::Guid::random(), {}, diskBytes / sectorSize, 0};
  // Behind the last sector that a partition may have.
  uint64_t at = gpt::kAlignment, limit = (kj::max(diskBytes / kMiB, 1) - 1) * kMiB;
  for (auto i : kj::indices(sizes)) {
    bool rest = sizes[i] == 0 && i + 1 == sizes.size();
    if (sizes[i] > diskBytes || at >= limit || (!rest && at + roundedUp(sizes[i]) > limit)) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("it has ", diskBytes / kMiB, " MiB, which is too small for partition ", i + 1));
    }
    uint64_t end = rest ? limit : at + roundedUp(sizes[i]);
    table.partitions.add(gpt::Partition{gpt::kLinuxData, gpt::Guid::random(), at / sectorSize,
                                        end / sectorSize - 1, 0, kj::str("user-disk-", i + 1)});
    at = end;
  }
  return table;
}

bool divide(kj::StringPtr path, kj::ArrayPtr<const uint64_t> sizes,
            kj::Function<void(kj::StringPtr)>& say) {
  Disk disk(path);
  auto found = disk.look();
  if (found.installed == Installed::kUnfinished) refuse(path, "a system is being installed on it");
  KJ_IF_MAYBE (table, disk.table()) {
    if (found.installed == Installed::kNot && table->partitions.size() == sizes.size() &&
        sizes.size() > 0) {
      return false;
    }
  }
  KJ_IF_MAYBE (why, worthKeeping(found)) {
    refuse(path, kj::str(*why, ", and machine.disks names ", sizes.size(),
                         sizes.size() == 1 ? " partition" : " partitions",
                         "; empty the disk, or choose another one"));
  }
  gpt::Table table;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { table = userLayout(sizes, disk.size(), disk.sectorSize()); })) {
    refuse(path, messageOf(*e));
  }
  say(kj::str("partitioning ", path));
  for (auto& p : table.partitions) {
    auto size = (p.last + 1 - p.first) * disk.sectorSize();
    disk.zero(p.first * disk.sectorSize(), kj::min(size, kEmptyHead));
  }
  disk.setTable(table);
  return true;
}

}  // namespace talos::install
