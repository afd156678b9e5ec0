#include "machined/disk/volumes/volume-search.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/refcount.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "machined/disk/devices/device-drivers.h"
#include "machined/disk/devices/device-events.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::machined {
namespace {

constexpr auto kDeviceTimeout = 10 * kj::SECONDS;
constexpr auto kReadTimeout = 60 * kj::SECONDS;  // a disc is slow, and is mounted first
// Drives do not report inserted discs.
constexpr auto kLookAgain = 2 * kj::SECONDS;
// When a device that was too late is tried again: before a volume is that waits for it
// (volume-retries.h), and not in each look of a boot, which would be as late each time.
constexpr auto kTryAgain = 20 * kj::SECONDS;

constexpr kj::StringPtr kSilent = "did not respond within "_kj;

// State that jobs of the pool share, one after the other.
struct OpenDevice : public kj::AtomicRefcounted {
  kj::AutoCloseFd fd;
  kj::String problem = kj::String();
};

// An attempt without a state.
struct FilesAttempt : public kj::AtomicRefcounted {};

// Returns fewer bytes at the end of the device, none where it cannot be read. Blocking.
kj::Array<const kj::byte> readDevice(OpenDevice& device, uint64_t offset, size_t size) {
  auto bytes = kj::heapArray<kj::byte>(size);
  size_t filled = 0;
  while (filled < size) {
    ssize_t part = pread(device.fd, bytes.begin() + filled, size - filled,
                         static_cast<off_t>(offset + filled));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) device.problem = kj::str("cannot be read: ", strerror(errno));
    if (part <= 0) break;
    filled += static_cast<size_t>(part);
  }
  return kj::heapArray<const kj::byte>(bytes.begin(), filled);
}

struct Probed {
  kj::Maybe<Superblock> content;
  bool lostTable = false;
  kj::String problem = kj::String();  // as Volume's
};

// Probes a device. Does not reject for a fault of the device, nor for its content.
kj::Promise<Probed> probeDevice(ReadPool& pool, ForeignBytes& foreign, kj::String node,
                                kj::Own<OpenDevice> device) {
  auto& opened = *device;
  auto doing = kj::str("looking at ", node);
  auto opening = [node = kj::str(node), device = kj::atomicAddRef(opened)]() mutable {
    // A drive may be empty.
    device->fd = kj::AutoCloseFd(open(node.cStr(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (device->fd.get() < 0) device->problem = kj::str("cannot be opened: ", strerror(errno));
  };
  co_await pool.run(doing, kj::mv(opening)).catch_([&opened](kj::Exception&& e) {
    opened.problem = kj::str("cannot be opened: ", messageOf(e));  // no thread was free for it
  });
  Probed result;
  if (opened.fd.get() >= 0) {
    auto read = [&pool, &doing, device = kj::atomicAddRef(opened)](uint64_t offset,
                                                                   size_t size) mutable {
      return pool.run(doing, [device = kj::atomicAddRef(*device), offset, size]() mutable {
        return readDevice(*device, offset, size);
      });
    };
    co_await foreign.superblock(node, kj::mv(read))
        .then(
            [&result](ForeignBytes::OnDevice&& found) {
              result.content = kj::mv(found.content);
              result.lostTable = found.lostTable;
            },
            [&result](kj::Exception&& e) { result.problem = messageOf(e); });
  }
  if (opened.problem.size() > 0) result.problem = kj::mv(opened.problem);
  co_return kj::mv(result);
}

VolumeFiles readFiles(kj::StringPtr device, FileSystem type, kj::ArrayPtr<const kj::String> names,
                      size_t limit) {
  auto mount = openFileSystem(device, type, MountAccess::kReadOnly);
  VolumeFiles result;
  result.device = kj::str(device);
  result.files = KJ_MAP(name, names) {
    return readFileAt(mount, name, limit);
  };
  return result;
}

}  // namespace

kj::Promise<FoundOnDisk> lookAtDisk(ReadPool& pool, ForeignBytes& foreign, kj::String disk) {
  auto doing = kj::str("looking at ", disk);
  auto fd = co_await pool.run(doing, [path = kj::str(disk)]() {
    kj::AutoCloseFd opened(open(path.cStr(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    int error = opened.get() < 0 ? errno : 0;
    struct stat info;
    if (error == ENOENT || (error == 0 && fstat(opened, &info) == 0 && !S_ISBLK(info.st_mode))) {
      fail(ErrorKind::kNotFound, kj::str("there is no disk ", path));
    }
    if (error != 0) {
      fail(ErrorKind::kFailedPrecondition, kj::str(path, " cannot be opened: ", strerror(error)));
    }
    return opened;
  });
  co_return co_await foreign.disk(disk, kj::mv(fd))
      .catch_([&disk](kj::Exception&& e) -> FoundOnDisk {
        fail(kindOf(e), kj::str(disk, " cannot be looked at: ", messageOf(e)));
      });
}

kj::Vector<kj::String> thingsOn(const FoundOnDisk& found) {
  constexpr size_t kMostNamed = 8;
  kj::Vector<kj::String> things;
  for (auto& volume : found.volumes) {
    things.add(volume.label.size() > 0 ? kj::str(volume.type, " \"", volume.label, "\"")
                                       : kj::str(volume.type));
  }
  KJ_IF_MAYBE (kind, found.table) {
    auto& names = found.partitions;
    if (names.empty()) {
      things.add(kj::str("an empty partition table (", *kind, ")"));
    } else {
      auto shown = kj::strArray(names.slice(0, kj::min(names.size(), kMostNamed)), ", ");
      things.add(kj::str(names.size(), " partition", names.size() == 1 ? "" : "s", " (", *kind,
                         "): ", shown, names.size() > kMostNamed ? " and more" : ""));
    }
  }
  return things;
}

bool Volume::isSilent() const {
  return problem.startsWith(kSilent);
}

kj::StringPtr Volume::label() const {
  KJ_IF_MAYBE (c, content) return c->label;
  return "";
}

bool Volume::contains(FileSystem type) const {
  KJ_IF_MAYBE (c, content) return c->type == type;
  return false;
}

kj::Maybe<const Volume&> chooseVolume(kj::ArrayPtr<const Volume> volumes, kj::StringPtr label,
                                      kj::Vector<kj::String>& others) {
  kj::Maybe<const Volume&> chosen;
  for (auto& v : volumes) {
    if (strcasecmp(v.label().cStr(), label.cStr()) != 0 || v.contains(FileSystem::kLuks)) continue;
    KJ_IF_MAYBE (first, chosen) {
      if (first->device.disk != v.device.disk) others.add(v.device.node());
    } else {
      chosen = v;
    }
  }
  return chosen;
}

kj::Promise<kj::Maybe<VolumeFiles>> firstDisc(kj::ArrayPtr<const Volume> volumes, ReadVolume& read,
                                              kj::Maybe<kj::Exception>& unreadable) {
  unreadable = nullptr;
  for (auto& volume : volumes) {
    if (!volume.contains(FileSystem::kUdf) && !volume.contains(FileSystem::kIso9660)) continue;
    kj::Maybe<VolumeFiles> found;
    co_await read(volume).then([&](VolumeFiles&& files) { found = kj::mv(files); },
                               [&](kj::Exception&& e) { unreadable = kj::mv(e); });
    KJ_IF_MAYBE (files, found) {
      if (files->files[0] != nullptr) co_return kj::mv(*files);
    }
  }
  co_return nullptr;
}

void RealVolumes::sayOnce(kj::String line) {
  if (reported.find(line) != nullptr) return;
  say(line);
  reported.insert(kj::mv(line));
}

template <typename T>
kj::Promise<kj::Maybe<T>> RealVolumes::answered(const BlockDevice& device, kj::Duration timeout,
                                                Attempt attempt, kj::Promise<T> job) {
  auto late = [this, &device, attempt = kj::mv(attempt)]() mutable -> kj::Maybe<T> {
    bool known = silenceOf(device) != nullptr;
    silent.upsert(kj::str(device.name),
                  Silence{device.sequence, kj::mv(attempt), timer.now() + kTryAgain});
    if (!known) say(kj::str("warning: ", device.node(), " does not respond; ignored"));
    return nullptr;
  };
  auto inTime = [this, &device](T&& answer) -> kj::Maybe<T> {
    silent.erase(device.name);
    return kj::mv(answer);
  };
  return job.then(kj::mv(inTime)).exclusiveJoin(timer.afterDelay(timeout).then(kj::mv(late)));
}

kj::Maybe<const RealVolumes::Silence&> RealVolumes::silenceOf(const BlockDevice& device) const {
  KJ_IF_MAYBE (silence, silent.find(device.name)) {
    if (silence->sequence == device.sequence) return *silence;
  }
  return nullptr;
}

bool RealVolumes::mayBeTried(const BlockDevice& device) const {
  KJ_IF_MAYBE (silence, silenceOf(device)) {
    bool busy = silence->attempt->isShared();  // a thread, with the last attempt
    return !busy && timer.now() >= silence->again;
  }
  return true;
}

void RealVolumes::forgetOthers(kj::ArrayPtr<const BlockDevice> devices, bool disks) {
  kj::TreeSet<kj::String> left;
  for (auto& device : devices) {
    if (silenceOf(device) != nullptr) left.insert(kj::str(device.name));
  }
  silent.eraseAll([&](const kj::String& name, const Silence&) {
    return isDiskName(name) == disks && left.find(name) == nullptr;
  });
}

kj::Promise<Volume> RealVolumes::probe(BlockDevice device, bool divided) {
  Volume volume{kj::mv(device), nullptr};
  auto& about = volume.device;
  if (mayBeTried(about)) {
    auto attempt = kj::atomicRefcounted<OpenDevice>();
    auto job = probeDevice(pool, foreign, about.node(), kj::atomicAddRef(*attempt));
    auto probing = answered(about, kDeviceTimeout, kj::mv(attempt), kj::mv(job));
    KJ_IF_MAYBE (probed, co_await probing) {
      volume.content = kj::mv(probed->content);
      volume.problem = kj::mv(probed->problem);
      if (about.whole && !divided && probed->lostTable) {
        volume.problem = kj::str("has a partition table that the kernel does not accept");
      }
      co_return kj::mv(volume);
    }
  }
  volume.problem = kj::str(kSilent, kDeviceTimeout / kj::SECONDS, " s");
  co_return kj::mv(volume);
}

kj::Promise<kj::Vector<BlockDevice>> RealVolumes::list(kj::StringPtr doing, Listing& last,
                                                       ReadList read) {
  auto late = [doing]() {
    return kj::str(doing, ": the kernel ", kSilent, kDeviceTimeout / kj::SECONDS, " s");
  };
  // Another caller may be waiting for its own list, which is not late.
  bool hangs =
      last.attempt.get() != nullptr && last.attempt->isShared() && timer.now() >= last.late;
  if (hangs) fail(ErrorKind::kUnavailable, late());
  auto attempt = kj::atomicRefcounted<FilesAttempt>();
  auto job = pool.run(doing, [read, sys = kj::str(sys), counted = kj::atomicAddRef(*attempt)]() {
    return read(sys);
  });
  last = {kj::mv(attempt), timer.now() + kDeviceTimeout};
  co_return co_await within(timer, kDeviceTimeout, kj::mv(job), late(), ErrorKind::kUnavailable);
}

kj::Promise<kj::Vector<Volume>> RealVolumes::look() {
  auto devices = co_await list("listing the disks", diskList,
                               [](kj::StringPtr sys) { return readBlockDevices(sys); });
  forgetOthers(devices, true);
  co_return co_await probeAll(kj::mv(devices));
}

kj::Promise<kj::Vector<Volume>> RealVolumes::lookIntoOpen() {
  auto devices = co_await list("listing the open volumes", openList,
                               [](kj::StringPtr sys) { return readOpenVolumes(sys); });
  forgetOthers(devices, false);
  co_return co_await probeAll(kj::mv(devices));
}

kj::Promise<kj::Vector<Volume>> RealVolumes::probeAll(kj::Vector<BlockDevice> devices) {
  kj::HashSet<kj::String> divided;
  for (auto& device : devices) {
    if (!device.whole) divided.upsert(kj::str(device.disk), [](auto&, auto&&) {});
  }
  kj::Vector<kj::Promise<Volume>> probes;
  for (auto& device : devices) {
    if (device.bytes == 0) continue;
    bool has = divided.contains(device.name);
    probes.add(probe(kj::mv(device), has));
  }
  kj::Vector<Volume> volumes;
  for (auto& volume : co_await kj::joinPromises(probes.releaseAsArray())) {
    volumes.add(kj::mv(volume));
  }
  co_return kj::mv(volumes);
}

// Drives that appear later need this: no other code loads their drivers.
kj::Promise<void> RealVolumes::loadDrivers() {
  auto problems = co_await pool.run("loading the drivers of disks", [this]() {
    kj::Vector<kj::String> problems;
    kj::Function<void(kj::StringPtr)> failed = [&](kj::StringPtr p) { problems.add(kj::str(p)); };
    loadScsiDrivers(modules(), true, failed);
    return problems;
  });
  for (auto& p : problems) sayOnce(kj::str("warning: ", p));
}

kj::Promise<VolumeFiles> RealVolumes::readVolume(const Volume& volume,
                                                 kj::ArrayPtr<const kj::String> names,
                                                 size_t limit) {
  auto node = volume.device.node();
  auto type = KJ_ASSERT_NONNULL(volume.content).type;
  auto copies = KJ_MAP(name, names) {
    return kj::str(name);
  };
  auto attempt = kj::atomicRefcounted<FilesAttempt>();
  auto job = pool.run(
      kj::str("reading ", node),
      [node = kj::str(node), type, names = kj::mv(copies), limit,
       counted = kj::atomicAddRef(*attempt)]() { return readFiles(node, type, names, limit); });
  auto reading = answered(volume.device, kReadTimeout, kj::mv(attempt), kj::mv(job));
  KJ_IF_MAYBE (files, co_await reading) {
    co_return kj::mv(*files);
  }
  fail(ErrorKind::kDeadlineExceeded,
       kj::str(node, " timed out after ", kReadTimeout / kj::SECONDS, " s"));
}

kj::Promise<kj::Maybe<VolumeFiles>> RealVolumes::search(kj::Duration timeout, TryVolumes attempt) {
  auto deadline = timer.now() + timeout;
  DeviceEvents events(port);
  for (;;) {
    auto changed = events.next();
    co_await loadDrivers();
    kj::Maybe<kj::Vector<Volume>> volumes;
    kj::Maybe<kj::Exception> failure;
    co_await look().then([&](kj::Vector<Volume>&& found) { volumes = kj::mv(found); },
                         [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (found, volumes) {
      KJ_IF_MAYBE (files, co_await attempt(*found)) co_return kj::mv(*files);
    }
    if (timer.now() >= deadline) {
      KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
      co_return nullptr;
    }
    co_await changed.exclusiveJoin(timer.atTime(kj::min(deadline, timer.now() + kLookAgain)));
  }
}

kj::Promise<kj::Maybe<VolumeFiles>> RealVolumes::read(kj::StringPtr label,
                                                      kj::Array<kj::String> names, size_t limit,
                                                      kj::Duration timeout) {
  auto wanted = kj::str(label);
  auto attempt = [&](kj::ArrayPtr<const Volume> volumes) -> kj::Promise<kj::Maybe<VolumeFiles>> {
    kj::Vector<kj::String> others;
    KJ_IF_MAYBE (volume, chooseVolume(volumes, wanted, others)) {
      if (!others.empty()) {
        sayOnce(kj::str("warning: more than one volume is labelled ", wanted, "; ",
                        volume->device.node(), " is used, not ", kj::strArray(others, ", ")));
      }
      return readVolume(*volume, names, limit).then([](VolumeFiles&& files) {
        return kj::Maybe<VolumeFiles>(kj::mv(files));
      });
    }
    return kj::Maybe<VolumeFiles>(nullptr);
  };
  co_return co_await search(timeout, attempt);
}

kj::Promise<kj::Maybe<VolumeFiles>> RealVolumes::readDisc(kj::String name, size_t limit,
                                                          kj::Duration timeout) {
  auto names = kj::arr(kj::mv(name));
  ReadVolume read = [&](const Volume& volume) { return readVolume(volume, names, limit); };
  kj::Maybe<kj::Exception> unreadable;  // of the last look
  auto attempt = [&](kj::ArrayPtr<const Volume> volumes) {
    return firstDisc(volumes, read, unreadable);
  };
  KJ_IF_MAYBE (files, co_await search(timeout, attempt)) co_return kj::mv(*files);
  KJ_IF_MAYBE (e, unreadable) kj::throwFatalException(kj::mv(*e));
  for (auto& device : silent) {
    fail(ErrorKind::kUnavailable, kj::str("/dev/", device.key, " does not respond"));
  }
  co_return nullptr;
}

}  // namespace talos::machined
