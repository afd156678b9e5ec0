#include "machined/disk/installer/slot-store.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/error.h"
#include "machined/disk/installer/digest-list.h"
#include "machined/disk/installer/kernel-image.h"
#include "machined/disk/installer/synced-file.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::install {
namespace {

constexpr kj::StringPtr kBootFiles[] = {"vmlinuz"_kj, "initramfs"_kj, "version"_kj, "boot.cfg"_kj};
constexpr kj::StringPtr kImageParts[] = {"vmlinuz"_kj, "initramfs"_kj, "rootfs.sqsh"_kj};
constexpr kj::StringPtr kRootImage[] = {"rootfs.sqsh"_kj};
constexpr kj::StringPtr kSmaller =
    "use an image with less in it, as FLAVOUR=cloud makes one; an installation that erases a disk "
    "of 8 GiB or more makes a larger BOOT"_kj;
constexpr kj::StringPtr kFolderFiles[] = {"rootfs.sqsh"_kj, "version"_kj};

uint64_t bytesOf(InstallerImage& image, kj::ArrayPtr<const kj::StringPtr> parts) {
  uint64_t bytes = 0;
  for (auto name : parts) bytes += image.openPart(name).range.size;
  return bytes;
}

// Returns the free bytes once the slot is empty.
uint64_t roomFor(int top, Slot slot, kj::ArrayPtr<const kj::StringPtr> files) {
  struct statvfs fs;
  KJ_SYSCALL(fstatvfs(top, &fs));
  uint64_t bytes = uint64_t{fs.f_bavail} * fs.f_frsize;
  for (auto name : files) {
    struct stat info;
    auto path = kj::str(nameOf(slot), "/", name);
    if (fstatat(top, path.cStr(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
      bytes += uint64_t(info.st_blocks) * 512;
    }
  }
  return bytes;
}

void requireLess(uint64_t needed, uint64_t room, kj::StringPtr where, kj::StringPtr remedy) {
  if (needed < room) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the new system is too large: it needs ", needed >> 20, " MiB, and ", where, " has ",
               room >> 20, " MiB for it beside the one that runs; nothing was written; ", remedy));
}

void checkKernelFile(const FileRange& kernel) {
  auto head = kj::heapArray<kj::byte>(kj::min(kernel.size, uint64_t{kKernelHeadBytes}));
  ssize_t n;
  KJ_SYSCALL(n = pread(kernel.fd, head.begin(), head.size(), static_cast<off_t>(kernel.begin)));
  checkKernel(head.slice(0, static_cast<size_t>(n)), kernel.size);
}

DigestList digestsOf(InstallerImage& image) {
  return DigestList(image.small("SHA256SUMS", kMostDigestListBytes));
}

kj::String writeFile(int top, kj::StringPtr path, const FileRange& from) {
  NewFile file(top, path, 0600);
  file.addAll(from);
  return file.sync();
}

void syncFolder(int top, kj::StringPtr path) {
  int raw;
  KJ_SYSCALL(raw = openat(top, path.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
  kj::AutoCloseFd folder(raw);
  KJ_SYSCALL(fsync(folder), path);
}

class PartitionSlots final : public SlotStore {
 public:
  explicit PartitionSlots(kj::StringPtr device) : device(device) {}

  kj::AutoCloseFd open() override {
    return machined::openFileSystem(device, machined::FileSystem::kXfs,
                                    machined::MountAccess::kReadWrite);
  }
  kj::ArrayPtr<const kj::StringPtr> files() const override { return kBootFiles; }
  kj::String lastFile(Slot slot, kj::StringPtr, kj::StringPtr arguments) const override {
    return bootEntry(slot, arguments);
  }
  void requireRoom(int top, Slot slot, InstallerImage& image) const override {
    requireLess(bytesOf(image, kImageParts), roomFor(top, slot, kBootFiles), "BOOT"_kj, kSmaller);
  }
  kj::Vector<WrittenFile> fill(int top, Slot slot, InstallerImage& from) override {
    auto list = digestsOf(from);
    auto version = from.versionFile();
    imageVersion(version);
    auto kernel = from.openPart("vmlinuz"), early = from.openPart("initramfs"),
         image = from.openPart("rootfs.sqsh");
    checkKernelFile(kernel.range);
    auto in = [&](kj::StringPtr name) { return kj::str(nameOf(slot), "/", name); };
    kj::Vector<WrittenFile> written;
    auto& first = written.add(WrittenFile{"vmlinuz", writeFile(top, in("vmlinuz"), kernel.range)});
    // An image that is built FROM an installer image may end up with another kernel that its list
    // does not name; then only the kernel's header was checked.
    if (list.lists("vmlinuz")) list.check("vmlinuz", first.digest);
    InitramfsParts parts;
    written.add(WrittenFile{"initramfs",
                            writeInitramfs(top, in("initramfs"), early.range, image.range, parts)});
    list.check("initramfs", parts.early.hex());
    list.check("rootfs.sqsh", parts.image.hex());
    putFile(top, in("version"), version, 0600);
    sync(top, slot);
    return written;
  }
  void sync(int top, Slot) override { syncAll(top); }

 private:
  kj::StringPtr device;
};

// Kernel, initramfs and arguments of the image are not used, because the kernel is the host's.
class FolderSlots final : public SlotStore {
 public:
  explicit FolderSlots(kj::StringPtr folder) : folder(folder) {}

  kj::AutoCloseFd open() override {
    int raw = ::open(folder.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (raw < 0) {
      fail(ErrorKind::kFailedPrecondition, kj::str("cannot open ", folder, ": ", strerror(errno)));
    }
    return kj::AutoCloseFd(raw);
  }
  kj::ArrayPtr<const kj::StringPtr> files() const override { return kFolderFiles; }
  kj::String lastFile(Slot, kj::StringPtr version, kj::StringPtr) const override {
    return kj::str(version, "\n");
  }
  void requireRoom(int top, Slot slot, InstallerImage& image) const override {
    auto extensions = image.extensions();
    if (extensions.size() > 0) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("the image has system extensions (", kj::strArray(extensions, ", "),
                   "), which a node in a container does not load; nothing was written; use an "
                   "image without them"));
    }
    requireLess(bytesOf(image, kRootImage), roomFor(top, slot, kFolderFiles), folder,
                "make room on the host"_kj);
  }
  kj::Vector<WrittenFile> fill(int top, Slot slot, InstallerImage& from) override {
    auto list = digestsOf(from);
    auto image = from.openPart("rootfs.sqsh");
    auto path = kj::str(nameOf(slot), "/rootfs.sqsh");
    kj::Vector<WrittenFile> written;
    auto& only = written.add(WrittenFile{"rootfs.sqsh", writeFile(top, path, image.range)});
    list.check("rootfs.sqsh", only.digest);
    sync(top, slot);
    return written;
  }
  // Does not sync the whole file system, which belongs to the host and has other writers.
  void sync(int top, Slot slot) override {
    syncFolder(top, nameOf(slot));
    syncFolder(top, ".");
  }

 private:
  kj::StringPtr folder;
};

}  // namespace

kj::Own<SlotStore> slotStoreAt(kj::StringPtr place) {
  struct stat info;
  if (stat(place.cStr(), &info) == 0 && S_ISDIR(info.st_mode)) return kj::heap<FolderSlots>(place);
  return kj::heap<PartitionSlots>(place);
}

}  // namespace talos::install
