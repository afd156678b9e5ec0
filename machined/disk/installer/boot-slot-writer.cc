#include "machined/disk/installer/boot-slot-writer.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "machined/disk/installer/digest-list.h"
#include "machined/disk/installer/slot-store.h"
#include "machined/disk/installer/synced-file.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::install {
namespace {

constexpr kj::StringPtr kEnvironmentFile = "grub/grubenv"_kj;

SlotState readEnvironment(int mount, kj::StringPtr place) {
  int raw = openat(mount, "grub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (raw >= 0) {
    kj::AutoCloseFd folder(raw);
    KJ_IF_MAYBE (text, machined::readFileAt(folder, "grubenv", 4096)) {
      KJ_IF_MAYBE (state, readSlots(*text)) return *state;
    }
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str(place,
               ": grub/grubenv is missing or damaged, so it is unknown which system is "
               "started"));
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

void emptySlot(SlotStore& store, int mount, Slot slot) {
  makeFolder(mount, nameOf(slot));
  for (auto name : store.files()) {
    auto path = kj::str(nameOf(slot), "/", name);
    if (unlinkat(mount, path.cStr(), 0) != 0 && errno != ENOENT) {
      KJ_FAIL_SYSCALL("unlink", errno, path);
    }
  }
  store.sync(mount, slot);
}

kj::Maybe<kj::String> versionIn(SlotStore& store, int mount, Slot slot) {
  for (auto name : store.files()) {
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

// The bytes on the disk: the cache went with the mount before, and that of a folder is dropped.
kj::String digestOn(int mount, Slot slot, kj::StringPtr name) {
  auto path = kj::str(nameOf(slot), "/", name);
  int raw;
  KJ_SYSCALL(raw = openat(mount, path.cStr(), O_RDONLY | O_CLOEXEC), path);
  kj::AutoCloseFd fd(raw);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  Sha256 digest;
  auto block = kj::heapArray<kj::byte>(1u << 20);
  for (;;) {
    ssize_t n;
    KJ_SYSCALL(n = ::read(fd, block.begin(), block.size()), path);
    if (n == 0) return digest.hex();
    digest.add(block.slice(0, static_cast<size_t>(n)));
  }
}

// Anew: of a partition, what was there is given back at an unmount only.
kj::Vector<WrittenFile> fill(SlotStore& store, Slot slot, InstallerImage& image) {
  auto mount = store.open();
  return store.fill(mount, slot, image);
}

}  // namespace

kj::String upgrade(kj::StringPtr place, Slot slot, const ImageSource& source,
                   kj::StringPtr arguments, kj::Function<void(kj::StringPtr)>& say) {
  auto store = slotStoreAt(place);
  auto image = openImage(source);
  auto version = image->version();
  auto last = store->lastFile(slot, version, arguments);
  {
    auto mount = store->open();
    auto state = readEnvironment(mount, place);
    if (state.confirmed == slot) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("slot ", nameOf(slot), " is the one that is started; it is not written to"));
    }
    state.attempt = nullptr;
    state.tries = 0;
    writeEnvironment(mount, state);
    emptySlot(*store, mount, slot);
  }
  say(kj::str("writing ", version, " to slot ", nameOf(slot)));
  auto written = fill(*store, slot, *image);
  say(kj::str("verifying slot ", nameOf(slot)));
  auto mount = store->open();
  for (auto& file : written) {
    if (digestOn(mount, slot, file.name) == file.digest) continue;
    fail(ErrorKind::kFailedPrecondition,
         kj::str(place, " reads back other data than was written; replace the disk"));
  }
  putFile(mount, kj::str(nameOf(slot), "/", store->files().back()), last, 0600);
  store->sync(mount, slot);
  return version;
}

ImageFacts factsOf(const ImageSource& source) {
  auto image = openImage(source);
  auto version = image->version();
  return {kj::mv(version), image->configKeys()};
}

SlotsOnDisk readSlotsOf(kj::StringPtr place) {
  auto store = slotStoreAt(place);
  auto mount = store->open();
  SlotsOnDisk result{readEnvironment(mount, place), {}};
  for (auto slot : {Slot::kA, Slot::kB}) {
    KJ_IF_MAYBE (version, versionIn(*store, mount, slot)) {
      result.systems.add(WholeSystem{slot, kj::mv(*version)});
    }
  }
  return result;
}

void choose(kj::StringPtr place, const SlotState& state) {
  auto store = slotStoreAt(place);
  auto mount = store->open();
  auto need = [&](Slot slot) {
    if (versionIn(*store, mount, slot) != nullptr) return;
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
