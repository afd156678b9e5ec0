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
#include "common/base/lines.h"
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

// Writes in place, where the boot loader finds the file. Its first sector holds all information.
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

// Reads the bytes from the disk: unmounting has dropped the cache, and for a folder it is dropped
// explicitly.
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

// Returns the mounted store, and the image if given.
confine::LandlockPaths pathsOf(int top, kj::Maybe<InstallerImage&> image = nullptr) {
  auto paths = pathsToWrite(top);
  KJ_IF_MAYBE (i, image) {
    KJ_IF_MAYBE (root, i->root()) paths.read.add(pathOf(*root));
  }
  return paths;
}

// Returns the version of the image. Afterwards no slot is tried, and the slot is empty.
kj::String makeRoom(kj::StringPtr place, Slot slot, const ImageSource& source,
                    kj::StringPtr arguments, Confinement& confinement) {
  auto store = slotStoreAt(place);
  auto image = openImage(source);
  auto mount = store->open();
  confinement.enter(StepKind::kFiles, pathsOf(mount, *image));
  auto version = image->version();
  store->lastFile(slot, version, arguments);  // refuses arguments that are too long
  auto state = readEnvironment(mount, place);
  if (state.confirmed == slot) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("slot ", nameOf(slot), " is the one that is started; it is not written to"));
  }
  store->requireRoom(mount, slot, *image);
  state.attempt = nullptr;
  state.tries = 0;
  writeEnvironment(mount, state);
  emptySlot(*store, mount, slot);
  return version;
}

// Opens the store again, because only after an unmount does a partition return the bytes on the
// disk. Returns the digests of the files that must be read again, in their order.
kj::String fill(kj::StringPtr place, Slot slot, const ImageSource& source,
                Confinement& confinement) {
  auto store = slotStoreAt(place);
  auto image = openImage(source);
  auto mount = store->open();
  confinement.enter(StepKind::kFiles, pathsOf(mount, *image));
  auto written = store->fill(mount, slot, *image);
  return kj::strArray(KJ_MAP(file, written) { return kj::str(file.name, " ", file.digest); }, "\n");
}

void verify(kj::StringPtr place, Slot slot, kj::StringPtr digests, kj::StringPtr last,
            Confinement& confinement) {
  auto store = slotStoreAt(place);
  auto mount = store->open();
  confinement.enter(StepKind::kFiles, pathsOf(mount));
  for (auto line : Lines(digests)) {
    auto space = KJ_REQUIRE_NONNULL(line.findFirst(' '));
    auto name = kj::heapString(line.slice(0, space));
    auto digest = digestOn(mount, slot, name);
    if (digest == kj::heapString(line.slice(space + 1, line.size()))) continue;
    fail(ErrorKind::kFailedPrecondition,
         kj::str(place, " reads back other data than was written; replace the disk"));
  }
  putFile(mount, kj::str(nameOf(slot), "/", store->files().back()), last, 0600);
  store->sync(mount, slot);
}

}  // namespace

kj::String upgrade(kj::StringPtr place, Slot slot, const ImageSource& source,
                   kj::StringPtr arguments, kj::Function<void(kj::StringPtr)>& say,
                   Confinement& confinement) {
  auto version = confinement.step(
      [&](Confinement& inner) { return makeRoom(place, slot, source, arguments, inner); });
  version = imageVersion(version);
  say(kj::str("writing ", version, " to slot ", nameOf(slot)));
  auto digests =
      confinement.step([&](Confinement& inner) { return fill(place, slot, source, inner); });
  say(kj::str("verifying slot ", nameOf(slot)));
  auto last = slotStoreAt(place)->lastFile(slot, version, arguments);
  confinement.step([&](Confinement& inner) {
    verify(place, slot, digests, last, inner);
    return kj::String();
  });
  return version;
}

ImageFacts factsOf(const ImageSource& source, kj::Maybe<SlotAt> slot, Confinement& confinement) {
  auto image = openImage(source);
  kj::Own<SlotStore> store;
  kj::AutoCloseFd mount;
  confine::LandlockPaths paths;
  KJ_IF_MAYBE (at, slot) {
    store = slotStoreAt(at->place);
    mount = store->open();
  }
  KJ_IF_MAYBE (root, image->root()) paths.read.add(pathOf(*root));
  confinement.enter(StepKind::kFiles, kj::mv(paths));
  auto version = image->version();
  KJ_IF_MAYBE (at, slot) store->requireRoom(mount, at->slot, *image);
  return {kj::mv(version), image->configKeys()};
}

SlotsOnDisk readSlotsOf(kj::StringPtr place, Confinement& confinement) {
  auto store = slotStoreAt(place);
  auto mount = store->open();
  confinement.enter(StepKind::kFiles, pathsOf(mount));
  SlotsOnDisk result{readEnvironment(mount, place), {}};
  for (auto slot : {Slot::kA, Slot::kB}) {
    KJ_IF_MAYBE (version, versionIn(*store, mount, slot)) {
      result.systems.add(WholeSystem{slot, kj::mv(*version)});
    }
  }
  return result;
}

void choose(kj::StringPtr place, const SlotState& state, Confinement& confinement) {
  auto store = slotStoreAt(place);
  auto mount = store->open();
  confinement.enter(StepKind::kFiles, pathsOf(mount));
  auto need = [&](Slot slot) {
    if (versionIn(*store, mount, slot) != nullptr) return;
    fail(ErrorKind::kNotFound, kj::str("there is no system in slot ", nameOf(slot)));
  };
  need(state.confirmed);
  KJ_IF_MAYBE (slot, state.attempt) need(*slot);
  writeEnvironment(mount, state);
}

void clearHead(kj::StringPtr device, uint64_t bytes, Confinement& confinement) {
  confine::LandlockPaths paths;
  paths.devices.add(kj::str(device));
  confinement.enter(StepKind::kDisk, kj::mv(paths));
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
