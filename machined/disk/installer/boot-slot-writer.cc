#include "machined/disk/installer/boot-slot-writer.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "machined/disk/installer/digest-list.h"
#include "machined/disk/installer/kernel-image.h"
#include "machined/disk/installer/synced-file.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::install {
namespace {

constexpr kj::StringPtr kEnvironmentFile = "grub/grubenv"_kj, kInImage = "usr/install"_kj;
// Of a slot. boot.cfg is the last one that is written.
constexpr kj::StringPtr kSlotFiles[] = {"vmlinuz"_kj, "initramfs"_kj, "version"_kj, "boot.cfg"_kj};
constexpr size_t kMostVersionFile = 128;

kj::AutoCloseFd mountBoot(kj::StringPtr device) {
  return machined::openFileSystem(device, machined::FileSystem::kXfs,
                                  machined::MountAccess::kReadWrite);
}

[[noreturn]] void noImage(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("not an installer image: ", problem));
}

// --- the image: what is in it is foreign

kj::AutoCloseFd openRoot(const ImageMount& image) {
  int raw = -1;
  if (image.type == "bind") {
    raw = open(image.source.cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (raw < 0) noImage(kj::str("cannot open ", image.source, ": ", strerror(errno)));
    return kj::AutoCloseFd(raw);
  }
  if (image.type != "overlay") noImage(kj::str("unknown kind of mount ", image.type));
  KJ_SYSCALL(raw = fsopen("overlay", FSOPEN_CLOEXEC));
  kj::AutoCloseFd context(raw);
  for (auto& option : image.options) {
    KJ_IF_MAYBE (at, option.findFirst('=')) {
      auto key = kj::heapString(option.slice(0, *at));
      if (key != "lowerdir") continue;  // of a view there is nothing to be written
      // One at a time: a value has at most 255 bytes, which four layers exceed.
      for (auto rest = option.slice(*at + 1);;) {
        auto colon = rest.findFirst(':');
        auto one = kj::heapString(rest.slice(0, colon.orDefault(rest.size())));
        KJ_SYSCALL(fsconfig(context, FSCONFIG_SET_STRING, "lowerdir+", one.cStr(), 0), one);
        KJ_IF_MAYBE (c, colon) {
          rest = rest.slice(*c + 1);
        } else {
          break;
        }
      }
    }
  }
  KJ_SYSCALL(fsconfig(context, FSCONFIG_SET_FLAG, "ro", nullptr, 0));
  KJ_SYSCALL(fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0));
  KJ_SYSCALL(raw = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY));
  return kj::AutoCloseFd(raw);
}

struct OpenPart {
  kj::AutoCloseFd own;  // none: it is a part of a file that stays open
  FileRange range;
};

// The files of an image.
class Image {
 public:
  virtual ~Image() noexcept(false) = default;
  virtual OpenPart openPart(kj::StringPtr name) = 0;

  kj::Array<char> small(kj::StringPtr name, size_t limit) {
    auto part = openPart(name);
    if (part.range.size > limit) noImage(kj::str("/", kInImage, "/", name, " is too large"));
    auto bytes = kj::heapArray<char>(part.range.size);
    ssize_t n;
    KJ_SYSCALL(
        n = pread(part.range.fd, bytes.begin(), bytes.size(), static_cast<off_t>(part.range.begin)),
        name);
    if (n != bytes.size()) noImage(kj::str("/", kInImage, "/", name, " is cut off"));
    return bytes;
  }
};

class MountedImage final : public Image {
 public:
  explicit MountedImage(const ImageMount& mount) : root(openRoot(mount)) {}

  // A regular file of the image, through no link and not out of it.
  OpenPart openPart(kj::StringPtr name) override {
    struct open_how how = {};
    how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    auto path = kj::str(kInImage, "/", name);
    long raw = syscall(SYS_openat2, root.get(), path.cStr(), &how, sizeof how);
    if (raw < 0) noImage(kj::str("cannot open /", path, ": ", strerror(errno)));
    kj::AutoCloseFd fd(static_cast<int>(raw));
    struct stat info;
    KJ_SYSCALL(fstat(fd, &info));
    if (!S_ISREG(info.st_mode)) noImage(kj::str("/", path, " is not a file"));
    auto range = wholeOf(fd);
    return {kj::mv(fd), range};
  }

 private:
  kj::AutoCloseFd root;
};

class ArchivedImage final : public Image {
 public:
  explicit ArchivedImage(const ImageInArchive& image)
      : image(image), archiveSize(sizeOf(image.archive)) {}

  OpenPart openPart(kj::StringPtr name) override {
    for (auto& part : image.parts) {
      if (part.name != name) continue;
      if (part.offset > archiveSize || part.size > archiveSize - part.offset) {
        noImage(kj::str("/", kInImage, "/", name, " is not in the archive"));
      }
      return {nullptr, {image.archive, part.offset, part.size}};
    }
    noImage(kj::str("/", kInImage, "/", name, " is missing"));
  }

 private:
  const ImageInArchive& image;
  uint64_t archiveSize;
};

kj::Own<Image> openImage(const ImageSource& source) {
  KJ_SWITCH_ONEOF(source) {
    KJ_CASE_ONEOF(mount, ImageMount) {
      return kj::heap<MountedImage>(mount);
    }
    KJ_CASE_ONEOF(archive, ImageInArchive) {
      return kj::heap<ArchivedImage>(archive);
    }
  }
  KJ_UNREACHABLE;
}

kj::String versionIn(Image& image) {
  return imageVersion(image.small("version", kMostVersionFile));
}

// --- the slots

SlotState environmentOf(int mount) {
  KJ_IF_MAYBE (text, machined::readFileAt(mount, "grubenv", 4096)) {
    KJ_IF_MAYBE (state, readSlots(*text)) return *state;
  }
  fail(ErrorKind::kFailedPrecondition,
       "BOOT: grub/grubenv is missing or damaged, so it is unknown which system is started");
}

SlotState readEnvironment(int mount) {
  int raw;
  KJ_SYSCALL(raw = openat(mount, "grub", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return environmentOf(kj::AutoCloseFd(raw));
}

// In place: the boot loader finds it where it was. All that it says is in its first sector.
void writeEnvironment(int mount, const SlotState& state) {
  int raw;
  KJ_SYSCALL(raw = openat(mount, kEnvironmentFile.cStr(), O_WRONLY | O_CLOEXEC));
  kj::AutoCloseFd fd(raw);
  auto text = writeSlots(state);
  ssize_t n;
  KJ_SYSCALL(n = pwrite(fd, text.begin(), text.size(), 0));
  KJ_REQUIRE(n == text.size(), "a write to grub/grubenv was cut");
  KJ_SYSCALL(fsync(fd));
}

void emptySlot(int mount, Slot slot) {
  makeFolder(mount, nameOf(slot));
  for (auto name : kSlotFiles) {
    auto path = kj::str(nameOf(slot), "/", name);
    if (unlinkat(mount, path.cStr(), 0) != 0 && errno != ENOENT) {
      KJ_FAIL_SYSCALL("unlink", errno, path);
    }
  }
  syncAll(mount);
}

kj::Maybe<kj::String> versionIn(int mount, Slot slot) {
  for (auto name : kSlotFiles) {
    struct stat info;
    auto path = kj::str(nameOf(slot), "/", name);
    if (fstatat(mount, path.cStr(), &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_size == 0) {
      return nullptr;
    }
  }
  int raw;
  KJ_SYSCALL(raw = openat(mount, nameOf(slot).cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  kj::AutoCloseFd folder(raw);
  KJ_IF_MAYBE (text, machined::readFileAt(folder, "version", kMostVersionFile)) {
    return imageVersion(*text);
  }
  return nullptr;
}

// The bytes on the disk: the cache went with the mount before.
kj::String digestOn(int mount, Slot slot, kj::StringPtr name) {
  auto path = kj::str(nameOf(slot), "/", name);
  int raw;
  KJ_SYSCALL(raw = openat(mount, path.cStr(), O_RDONLY | O_CLOEXEC), path);
  kj::AutoCloseFd fd(raw);
  Sha256 digest;
  auto block = kj::heapArray<kj::byte>(1u << 20);
  for (;;) {
    ssize_t n;
    KJ_SYSCALL(n = ::read(fd, block.begin(), block.size()), path);
    if (n == 0) return digest.hex();
    digest.add(block.slice(0, static_cast<size_t>(n)));
  }
}

struct Written {
  kj::String kernel, initramfs;  // digests
};

void requireRoom(int mount, uint64_t needed) {
  struct statvfs fs;
  KJ_SYSCALL(fstatvfs(mount, &fs));
  uint64_t left = uint64_t{fs.f_bavail} * fs.f_frsize;
  if (needed < left) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("the new system is too large: it needs ", needed >> 20, " MiB, and BOOT has ",
               left >> 20, " MiB left beside the one that runs"));
}

void checkKernelFile(const FileRange& kernel) {
  auto head = kj::heapArray<kj::byte>(kj::min(kernel.size, uint64_t{kKernelHeadBytes}));
  ssize_t n;
  KJ_SYSCALL(n = pread(kernel.fd, head.begin(), head.size(), static_cast<off_t>(kernel.begin)));
  checkKernel(head.slice(0, static_cast<size_t>(n)), kernel.size);
}

// All but boot.cfg, without which a slot is no system.
Written fillSlot(int mount, Slot slot, Image& from) {
  DigestList list(from.small("SHA256SUMS", kMostDigestListBytes));
  auto version = from.small("version", kMostVersionFile);
  imageVersion(version);
  auto kernel = from.openPart("vmlinuz"), early = from.openPart("initramfs"),
       image = from.openPart("rootfs.sqsh");
  checkKernelFile(kernel.range);
  requireRoom(mount, kernel.range.size + early.range.size + image.range.size);
  auto in = [&](kj::StringPtr name) { return kj::str(nameOf(slot), "/", name); };
  Written written;
  {
    auto path = in("vmlinuz");
    NewFile file(mount, path, 0600);
    file.addAll(kernel.range);
    written.kernel = file.sync();
  }
  // An image that is built FROM an installer image may have another kernel at last; the header is
  // what is left to compare it with.
  if (list.lists("vmlinuz")) list.check("vmlinuz", written.kernel);
  InitramfsParts parts;
  written.initramfs = writeInitramfs(mount, in("initramfs"), early.range, image.range, parts);
  list.check("initramfs", parts.early.hex());
  list.check("rootfs.sqsh", parts.image.hex());
  putFile(mount, in("version"), version, 0600);
  syncAll(mount);
  return written;
}

}  // namespace

kj::String upgrade(kj::StringPtr device, Slot slot, const ImageSource& source,
                   kj::StringPtr arguments, kj::Function<void(kj::StringPtr)>& say) {
  auto entry = bootEntry(slot, arguments);
  auto image = openImage(source);
  auto version = versionIn(*image);
  Written written;
  {
    auto mount = mountBoot(device);
    auto state = readEnvironment(mount);
    if (state.confirmed == slot) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("slot ", nameOf(slot), " is the one that is started; it is not written to"));
    }
    state.attempt = nullptr;
    state.tries = 0;
    writeEnvironment(mount, state);
    emptySlot(mount, slot);
  }
  {
    auto mount = mountBoot(device);  // anew: what was there is given back at an unmount only
    say(kj::str("writing ", version, " to slot ", nameOf(slot)));
    written = fillSlot(mount, slot, *image);
  }
  say(kj::str("verifying slot ", nameOf(slot)));
  auto mount = mountBoot(device);
  bool good = digestOn(mount, slot, "vmlinuz") == written.kernel &&
              digestOn(mount, slot, "initramfs") == written.initramfs;
  if (!good) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(device, " reads back other data than was written; replace the disk"));
  }
  putFile(mount, kj::str(nameOf(slot), "/boot.cfg"), entry, 0600);
  syncAll(mount);
  return version;
}

kj::String versionOf(const ImageSource& image) {
  return versionIn(*openImage(image));
}

SlotsOnDisk readSlotsOf(kj::StringPtr device) {
  auto mount = mountBoot(device);
  SlotsOnDisk result{readEnvironment(mount), {}};
  for (auto slot : {Slot::kA, Slot::kB}) {
    KJ_IF_MAYBE (version, versionIn(mount, slot)) {
      result.systems.add(WholeSystem{slot, kj::mv(*version)});
    }
  }
  return result;
}

void choose(kj::StringPtr device, const SlotState& state) {
  auto mount = mountBoot(device);
  auto need = [&](Slot slot) {
    if (versionIn(mount, slot) != nullptr) return;
    fail(ErrorKind::kNotFound, kj::str("there is no system in slot ", nameOf(slot)));
  };
  need(state.confirmed);
  KJ_IF_MAYBE (slot, state.attempt) need(*slot);
  writeEnvironment(mount, state);
}

void clearHead(kj::StringPtr device, uint64_t bytes) {
  int raw = open(device.cStr(), O_RDWR | O_EXCL | O_CLOEXEC);
  if (raw < 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str(device, " cannot be emptied: ", strerror(errno)));
  }
  kj::AutoCloseFd fd(raw);
  uint64_t range[2] = {0, kj::min(bytes, sizeOf(fd))};
  KJ_SYSCALL(ioctl(fd, BLKZEROOUT, range), device);
  KJ_SYSCALL(fsync(fd), device);
}

}  // namespace talos::install
