#include "machined/disk/installer/user-disk-formatter.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/base/error.h"
#include "machined/disk/installer/file-systems.h"
#include "machined/disk/installer/locked-disk.h"
#include "machined/disk/installer/synced-file.h"

namespace talos::install {
namespace {

uint64_t roundedUp(uint64_t bytes) {
  return (bytes + kMiB - 1) / kMiB * kMiB;
}

kj::String nameOf(size_t index) {
  return kj::str("user-disk-", index + 1);
}

bool isUnfinished(const gpt::Table& table) {
  for (auto i : kj::indices(table.partitions)) {
    if (table.partitions[i].name != kj::str(nameOf(i), kUnfinished)) return false;
  }
  return !table.partitions.empty();
}

[[noreturn]] void refuse(kj::StringPtr disk, kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("machine.disks: ", disk, " cannot be used: ", problem));
}

}  // namespace

gpt::Table userLayout(kj::ArrayPtr<const uint64_t> sizes, uint64_t diskBytes, unsigned sectorSize) {
  gpt::Table table{gpt::Guid::random(), {}, diskBytes / sectorSize, 0};
  // The end of the last sector that a partition may have.
  uint64_t at = gpt::kAlignment, limit = (kj::max(diskBytes / kMiB, 1) - 1) * kMiB;
  for (auto i : kj::indices(sizes)) {
    bool rest = sizes[i] == 0 && i + 1 == sizes.size();
    if (sizes[i] > diskBytes || at >= limit || (!rest && at + roundedUp(sizes[i]) > limit)) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("it has ", diskBytes / kMiB, " MiB, which is too small for partition ", i + 1));
    }
    uint64_t end = rest ? limit : at + roundedUp(sizes[i]);
    table.partitions.add(gpt::Partition{gpt::kLinuxData, gpt::Guid::random(), at / sectorSize,
                                        end / sectorSize - 1, 0, kj::str(nameOf(i), kUnfinished)});
    at = end;
  }
  return table;
}

void finishUserLayout(gpt::Table& table) {
  for (auto i : kj::indices(table.partitions)) table.partitions[i].name = nameOf(i);
}

bool mustDivide(kj::StringPtr disk, const Found& found, kj::Maybe<const gpt::Table&> table,
                size_t partitions) {
  if (found.installed == Installed::kUnfinished) refuse(disk, "a system is being installed on it");
  KJ_IF_MAYBE (t, table) {
    if (found.installed == Installed::kNot && isUnfinished(*t)) return true;
    bool fits = t->inForce && t->partitions.size() == partitions && partitions > 0;
    if (found.installed == Installed::kNot && fits) return false;
  }
  KJ_IF_MAYBE (problem, worthKeeping(found)) {
    refuse(disk, kj::str(*problem, ", and machine.disks names ", partitions,
                         partitions == 1 ? " partition" : " partitions",
                         "; empty the disk, or choose another one"));
  }
  return true;
}

namespace {

constexpr kj::StringPtr kDivided = "divided"_kj;

// Writes the table, with names that mark missing file systems. Returns false if the table exists
// already.
bool writeLayout(Disk& disk, kj::ArrayPtr<const uint64_t> sizes, machined::FoundOnDisk found,
                 kj::Function<void(kj::StringPtr)>& say) {
  auto there = disk.table();
  auto old = there.map([](gpt::Table& t) -> const gpt::Table& { return t; });
  if (!mustDivide(disk.name(), disk.look(kj::mv(found)), old, sizes.size())) return false;
  gpt::Table table;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { table = userLayout(sizes, disk.size(), disk.sectorSize()); })) {
    refuse(disk.name(), messageOf(*e));
  }
  say(kj::str("partitioning ", disk.name()));
  disk.setTable(table);
  return true;
}

}  // namespace

bool divide(kj::StringPtr path, kj::ArrayPtr<const uint64_t> sizes, machined::FoundOnDisk found,
            kj::Function<void(kj::StringPtr)>& say, Confinement& confinement) {
  Disk disk(path);
  auto divided = confinement.step([&](Confinement& inner) {
    inner.enter(StepKind::kDisk, {});
    return kj::str(writeLayout(disk, sizes, kj::mv(found), say) ? kDivided : ""_kj);
  });
  if (divided != kDivided) return false;
  confinement.enter(StepKind::kDisk, pathsToFormat(disk.nodes()));
  auto table = KJ_REQUIRE_NONNULL(disk.table());
  for (auto i : kj::indices(table.partitions)) {
    auto place = KJ_ASSERT_NONNULL(find(table, table.partitions[i].name, disk.sectorSize()));
    auto node = disk.node(place);
    say(kj::str("creating the file system of ", node));
    makeXfs(node, kj::str("disk-", i + 1));
    KJ_SYSCALL(fsync(openFile(node)), node);  // mkfs may leave it in the disk's cache
  }
  finishUserLayout(table);
  disk.setTable(table);
  return true;
}

}  // namespace talos::install
