#include "machined/disk/installer/system-installation.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/disk/empty-partition.h"
#include "machined/disk/installer/boot-code.h"
#include "machined/disk/installer/efi-boot-option.h"
#include "machined/disk/installer/file-systems.h"
#include "machined/disk/installer/locked-disk.h"
#include "machined/disk/installer/synced-file.h"
#include "machined/disk/volumes/mount-table.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::install {
namespace {

constexpr auto kSayEvery = 60 * kj::SECONDS;

}  // namespace

kj::Maybe<kj::String> WipeProgress::at(uint64_t done) {
  auto full = done * 10 / total;
  auto now = clock.now();
  if (full == tenths && now - said < kSayEvery) return nullptr;
  said = now;
  if (full == tenths) return kj::str(done >> 30, " of ", total >> 30, " GiB");
  tenths = full;
  return kj::str(tenths * 10, " %");
}

namespace {

using machined::FileSystem;

constexpr size_t kCopyAtOnce = 1u << 20;
constexpr kj::StringPtr kDone = "done"_kj;  // result of a step that may find nothing to do
constexpr uint64_t kHeadOfTable = 8192;     // MBR and header, whatever the sector size

[[noreturn]] void refuse(kj::String problem) {
  fail(ErrorKind::kFailedPrecondition, problem);
}

Place require(const gpt::Table& table, kj::StringPtr name, unsigned sectorSize) {
  return KJ_REQUIRE_NONNULL(find(table, name, sectorSize), name);
}

// --- the parts of an installation

void wipe(Disk& disk, Say& say) {
  say(kj::str("wiping ", disk.name()));
  // While the name STATE can be read, the disk has an owner, so the name goes first.
  KJ_IF_MAYBE (own, disk.table()) {
    if (own->inForce && installedOn(*own) == Installed::kYes) {
      disown(*own);
      disk.writeTable(*own);
    }
  }
  auto empty = kj::heapArray<kj::byte>(kHeadOfTable);
  memset(empty.begin(), 0, empty.size());
  disk.write(0, empty.slice(0, kBootSector));  // without this sector the table is invalid
  disk.write(kBootSector, empty.slice(kBootSector, empty.size()));
  auto whole = disk.size() / disk.sectorSize() * disk.sectorSize();
  WipeProgress progress(whole, kj::systemPreciseMonotonicClock());
  disk.zero(0, whole, [&](uint64_t done) {
    KJ_IF_MAYBE (line, progress.at(done)) say(kj::str("wiping ", disk.name(), ": ", *line));
  });
}

kj::AutoCloseFd mountToFill(kj::StringPtr node, FileSystem type) {
  return machined::openFileSystem(node, type, machined::MountAccess::kReadWrite);
}

void writeBootCode(Disk& disk, const Place& bios, const System& system) {
  auto sector = bios.offset / kBootSector;  // the BIOS's sector size
  disk.write(bios.offset,
             coreImage(contentOf(kj::str(system.folder, "/core.img")), sector, bios.size));
  disk.write(0, bootSector(disk.read(0, kBootSector),
                           contentOf(kj::str(system.folder, "/boot.img")), sector));
}

// If the firmware has no space, or refuses writes, it still finds the program by its path, which is
// the path on removable disks.
void makeBootEntry(Disk& disk, kj::StringPtr program, Say& say, Confinement& confinement) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 KJ_IF_MAYBE (variables, openEfiVariables()) {
                   confinement.enter(StepKind::kFiles, pathsToWrite(*variables));
                   auto table = KJ_REQUIRE_NONNULL(disk.table());
                   auto efi = require(table, kEfi, disk.sectorSize()).number;
                   auto& partition = table.partitions[efi - 1];
                   EfiBootOption wanted{.description = kj::str("Talos"),
                                        .file = {.partition = efi,
                                                 .firstSector = partition.first,
                                                 .sectors = partition.last - partition.first + 1,
                                                 .id = partition.id,
                                                 .path = kj::str("\\EFI\\BOOT\\", program)}};
                   if (addBootEntry(*variables, wanted)) {
                     say("the firmware starts this disk first, by its boot entry Talos");
                   }
                 }
               })) {
    say(kj::str(
        "warning: cannot add a boot entry to the firmware, which still finds the disk if it "
        "looks for it: ",
        messageOf(*e)));
  }
}

}  // namespace

kj::String rootImage(kj::StringPtr mountinfo) {
  // The last of several mounts is visible. With system extensions the root is an overlay, and
  // process 1 has mounted the root image there, too.
  kj::Maybe<kj::String> source, besideOverlay;
  bool overlay = false;
  for (auto line : Lines(mountinfo)) {
    KJ_IF_MAYBE (mount, machined::mountOf(line)) {
      bool isRoot = mount->target == "/"_kj.asArray();
      if (!isRoot && mount->target != kRootImageMount.asArray()) continue;
      kj::Maybe<kj::String> found;
      if (mount->type == "squashfs"_kj.asArray()) found = machined::unescaped(mount->source);
      (isRoot ? source : besideOverlay) = kj::mv(found);
      if (isRoot) overlay = mount->type == "overlay"_kj.asArray();
    }
  }
  if (overlay) source = kj::mv(besideOverlay);
  KJ_IF_MAYBE (s, source) return kj::mv(*s);
  refuse(kj::str("this system cannot be installed: its root is not an image"));
}

namespace {

// Does step 1. Returns false if the system is installed already.
bool partition(Disk& disk, InstallOptions& options, const gpt::Table& table, Say& say) {
  auto found = disk.look(kj::mv(options.found));
  if (options.again && found.installed == Installed::kYes) return false;
  if (options.wipe && found.installed != Installed::kUnfinished) {
    wipe(disk, say);
  } else KJ_IF_MAYBE (problem, worthKeeping(found)) {
    refuse(kj::str(options.disk, " cannot be installed on: ", *problem,
                   "; set machine.install.wipe: true to lose that, or choose another disk"));
  }
  say(kj::str("partitioning ", options.disk));
  // An earlier attempt may have put boot code there, of which the rest is now erased.
  if (found.installed == Installed::kUnfinished) {
    auto head = disk.read(0, kBootSector);
    auto sector = kj::heapArray<kj::byte>(head);
    gpt::startNextDevice(sector);
    disk.write(0, sector);
  }
  disk.setTable(table);
  auto place = [&](kj::StringPtr name) { return require(table, name, disk.sectorSize()); };
  for (auto name : {kBios, kMeta, kState}) disk.zero(place(name).offset, place(name).size);
  disk.zero(place(kEphemeral).offset, emptyHeadOf(place(kEphemeral).size));
  return true;
}

// Returns the files of the running system; its image may be a device.
confine::LandlockPaths pathsToInstall(int top, const System& system) {
  auto paths = pathsToWrite(top);
  paths.read.add(kj::str(system.folder));
  paths.asked.add(kj::str(system.image));
  return paths;
}

// Returns the number of EFI on a disk where an installation began; empty if it is installed
// already.
kj::String unfinishedEfi(Disk& disk) {
  gpt::Table table;
  KJ_IF_MAYBE (found, disk.table()) {
    table = kj::mv(*found);
  }
  if (installedOn(table) == Installed::kNot) {
    refuse(kj::str(disk.name(), " has changed since the installation began"));
  }
  if (installedOn(table) == Installed::kYes) return kj::String();
  return kj::str(require(table, kEfi, disk.sectorSize()).number);
}

void makeStartable(Disk& disk, unsigned efi, const System& system, Say& say,
                   Confinement& confinement) {
  say("installing the boot loader");
  auto programs = bootProgramsOf(system.arch);
  confinement.step([&](Confinement& inner) {
    auto top = mountToFill(partitionNode(disk.name(), efi), FileSystem::kVfat);
    inner.enter(StepKind::kFiles, pathsToInstall(top, system));
    putEfiFiles(top, system);
    return kj::String();
  });
  confinement.step([&](Confinement& inner) {
    confine::LandlockPaths paths;
    paths.read.add(kj::str(system.folder));
    inner.enter(StepKind::kDisk, kj::mv(paths));
    auto table = KJ_REQUIRE_NONNULL(disk.table());
    if (programs.bios) writeBootCode(disk, require(table, kBios, disk.sectorSize()), system);
    return kj::String();
  });
  confinement.step([&](Confinement& inner) {
    makeBootEntry(disk, programs.efi, say, inner);
    return kj::String();
  });
}

}  // namespace

bool write(InstallOptions options, const System& system, Say& say, Confinement& confinement) {
  Disk disk(options.disk);
  gpt::Table table;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { table = layout(disk.size(), disk.sectorSize(), options.ephemeral); })) {
    refuse(kj::str(options.disk, " cannot be installed on: it ", messageOf(*e)));
  }
  auto partitioned = confinement.step([&](Confinement& inner) {
    inner.enter(StepKind::kDisk, {});
    return kj::str(partition(disk, options, table, say) ? kDone : ""_kj);
  });
  if (partitioned != kDone) return false;
  auto efi = disk.node(require(table, kEfi, disk.sectorSize())),
       boot = disk.node(require(table, kBoot, disk.sectorSize()));
  confinement.step([&](Confinement& inner) {
    kj::String nodes[] = {kj::str(efi), kj::str(boot)};
    inner.enter(StepKind::kDisk, pathsToFormat(nodes));
    say("creating the file systems EFI and BOOT");
    makeFat(efi);
    makeBootXfs(boot);
    return kj::String();
  });
  confinement.step([&](Confinement& inner) {
    auto top = mountToFill(boot, FileSystem::kXfs);
    inner.enter(StepKind::kFiles, pathsToInstall(top, system));
    say("writing kernel and system to slot A");
    putBootFiles(top, options.arguments, system);
    return kj::String();
  });
  return true;
}

void finish(kj::StringPtr path, bool bootLoader, const System& system, Say& say,
            Confinement& confinement) {
  Disk disk(path);
  auto efi = confinement.step([&](Confinement& inner) {
    inner.enter(StepKind::kDisk, {});
    return unfinishedEfi(disk);
  });
  if (efi.size() == 0) return;  // the names come last
  if (bootLoader) makeStartable(disk, efi.parseAs<unsigned>(), system, say, confinement);
  confinement.enter(StepKind::kDisk, {});
  auto table = KJ_REQUIRE_NONNULL(disk.table());
  finish(table);
  disk.writeTable(table);  // the kernel reads it after the reboot
}

void format(kj::StringPtr device, kj::StringPtr label, uint64_t empty, Confinement& confinement) {
  kj::String nodes[] = {kj::str(device)};
  confinement.enter(StepKind::kDisk, pathsToFormat(nodes));
  {
    auto fd = openFile(device);
    auto block = kj::heapArray<kj::byte>(kCopyAtOnce);
    for (uint64_t done = 0; done < empty;) {
      ssize_t n;
      KJ_SYSCALL(n = pread(fd, block.begin(), kj::min(block.size(), empty - done),
                           static_cast<off_t>(done)),
                 device);
      if (n == 0) break;
      auto part = block.slice(0, static_cast<size_t>(n));
      if (done == 0 && isUnfinishedXfs(part)) break;
      if (!isZero(part)) refuse(kj::str(device, " is not empty, but has no readable file system"));
      done += static_cast<uint64_t>(n);
    }
  }
  makeXfs(device, label);
  KJ_SYSCALL(fsync(openFile(device)), device);  // mkfs may leave it in the disk's cache
}

namespace {

// The kernel's type for a partition.
void resize(int disk, const Place& place) {
  struct blkpg_partition part = {};
  part.start = static_cast<long long>(place.offset);
  part.length = static_cast<long long>(place.size);
  part.pno = static_cast<int>(place.number);
  struct blkpg_ioctl_arg ask = {BLKPG_RESIZE_PARTITION, 0, sizeof part, &part};
  KJ_SYSCALL(ioctl(disk, BLKPG, &ask));
}

}  // namespace

bool grow(kj::StringPtr path, const EphemeralSize& ephemeral, Confinement& confinement) {
  confine::LandlockPaths paths;
  paths.devices.add(kj::str(path));
  confinement.enter(StepKind::kDisk, kj::mv(paths));
  auto fd = openFile(path);  // it is in use: its partitions are mounted
  int sector = 0;
  KJ_SYSCALL(ioctl(fd, BLKSSZGET, &sector), path);
  auto size = sizeOf(fd);
  auto read = [&](uint64_t offset, size_t count) {
    auto bytes = kj::heapArray<kj::byte>(count);
    ssize_t n;
    KJ_SYSCALL(n = pread(fd, bytes.begin(), count, static_cast<off_t>(offset)), path);
    return kj::heapArray<const kj::byte>(bytes.begin(), static_cast<size_t>(n));
  };
  KJ_IF_MAYBE (table, gpt::read(read, static_cast<unsigned>(sector))) {
    KJ_IF_MAYBE (larger, grown(*table, size, static_cast<unsigned>(sector), ephemeral)) {
      int raw;
      KJ_SYSCALL(raw = open(path.cStr(), O_RDWR | O_DSYNC | O_CLOEXEC), path);
      kj::AutoCloseFd out(raw);
      for (auto& step : gpt::writes(*larger, static_cast<unsigned>(sector), *table)) {
        ssize_t n;
        KJ_SYSCALL(
            n = pwrite(out, step.bytes.begin(), step.bytes.size(), static_cast<off_t>(step.offset)),
            path);
        KJ_REQUIRE(n == step.bytes.size(), "a write to the disk was cut", path);
      }
      *table = kj::mv(*larger);
    }
    if (!table->inForce || installedOn(*table) != Installed::kYes) return false;
    // Also if the table has grown already: a previous brain may have ended before this call.
    resize(fd, require(*table, kEphemeral, static_cast<unsigned>(sector)));
    return true;
  }
  return false;
}

}  // namespace talos::install
