#include "machined/disk/installer/locked-disk.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <limits.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/text/foreign-text.h"

namespace talos::install {
namespace {

constexpr uint64_t kZeroAtOnce = 256 * kMiB;
constexpr unsigned kBusyTries = 200;
constexpr unsigned kMostNodes = 128;  // as in a GPT, and more than machine.disks has
constexpr timespec kBusyAgain = {0, 50'000'000};

[[noreturn]] void refuse(kj::StringPtr disk, kj::StringPtr doing, int error) {
  fail(ErrorKind::kFailedPrecondition, kj::str(disk, ": cannot ", doing, ": ", strerror(error)));
}

// Repeats `attempt` until it returns 0 or fails with another error than `busy`: the kernel reads a
// disk that was just closed, and a killed predecessor ends only when the disk has answered it.
int retryWhile(int busy, kj::FunctionParam<int()> attempt) {
  for (unsigned tries = 1;; ++tries) {
    if (attempt() == 0) return 0;
    int error = errno;
    if (error != busy || tries == kBusyTries) return error;
    nanosleep(&kBusyAgain, nullptr);
  }
}

kj::AutoCloseFd openDisk(kj::StringPtr path, int flags) {
  int fd = -1;
  int error = retryWhile(EBUSY, [&] {
    fd = open(path.cStr(), O_RDWR | O_CLOEXEC | flags);
    return fd < 0 ? -1 : 0;
  });
  if (error == 0) return kj::AutoCloseFd(fd);
  if (error == ENOENT) fail(ErrorKind::kNotFound, kj::str("there is no disk ", path));
  if (error == EBUSY) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(path, " is in use: something on it is mounted, or it is part of another device"));
  }
  refuse(path, "be opened for writing", error);
}

kj::StringPtr nameOfNode(kj::StringPtr node) {
  KJ_IF_MAYBE (slash, node.findLast('/')) return node.slice(*slash + 1);
  return node;
}

}  // namespace

UseOfDisk useOfDisk(kj::StringPtr path) {
  constexpr unsigned kTries = 20;  // 1 s: the kernel may still read a new disk
  auto holders = namesIn(kj::str("/sys/class/block/", nameOfNode(path), "/holders"));
  if (!holders.empty()) return {kj::str("it is in use by ", kj::strArray(holders, ", "))};
  for (unsigned tries = 1;; ++tries) {
    kj::AutoCloseFd fd(open(path.cStr(), O_RDWR | O_CLOEXEC | O_EXCL));
    if (fd.get() >= 0) return {};
    int error = errno;
    if (error != EBUSY) return {kj::str("it cannot be opened for writing: ", strerror(error))};
    if (tries == kTries) {
      return {kj::str("it is in use: something on it is mounted, or it is part of another device")};
    }
    nanosleep(&kBusyAgain, nullptr);
  }
}

kj::String diskOfPartition(kj::StringPtr node) {
  auto entry = kj::str("/sys/class/block/", nameOfNode(node));
  char target[PATH_MAX];
  if (access(kj::str(entry, "/partition").cStr(), F_OK) == 0 &&
      realpath(entry.cStr(), target) != nullptr) {
    // ".../block/vda/vda3"
    auto above = kj::StringPtr(target).slice(0);
    KJ_IF_MAYBE (last, above.findLast('/')) {
      auto disk = kj::heapString(above.slice(0, *last));
      return kj::str(nameOfNode(disk));
    }
  }
  fail(ErrorKind::kFailedPrecondition, kj::str(node, " is not a partition"));
}

bool isZero(kj::ArrayPtr<const kj::byte> bytes) {
  for (auto byte : bytes) {
    if (byte != 0) return false;
  }
  return true;
}

Disk::Disk(kj::StringPtr path, Use use) : path(kj::str(path)) {
  struct stat info;
  if (stat(this->path.cStr(), &info) != 0 || !S_ISBLK(info.st_mode)) {
    fail(ErrorKind::kNotFound, kj::str("there is no disk ", path));
  }
  // Fails if the disk is in use. Closed again at once, because its partitions cannot be used while
  // it is open with O_EXCL.
  if (use == Use::kAlone) openDisk(path, O_EXCL);
  fd = openDisk(path, O_DSYNC);
  if (retryWhile(EWOULDBLOCK, [&] { return flock(fd, LOCK_EX | LOCK_NB); }) != 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str(path, " is in use by another installation"));
  }
  int logical = 0;
  if (ioctl(fd, BLKGETSIZE64, &bytes) != 0 || ioctl(fd, BLKSSZGET, &logical) != 0) {
    refuse(path, "be asked for its size", errno);
  }
  sector = static_cast<unsigned>(logical);
}

kj::Array<const kj::byte> Disk::read(uint64_t offset, size_t size) {
  auto data = kj::heapArray<kj::byte>(size);
  size_t filled = 0;
  while (filled < size) {
    ssize_t part =
        pread(fd, data.begin() + filled, size - filled, static_cast<off_t>(offset + filled));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) refuse(path, "be read", errno);
    if (part == 0) break;
    filled += static_cast<size_t>(part);
  }
  if (filled == size) return data;  // no second copy, because the data may be secret
  return kj::heapArray<const kj::byte>(data.begin(), filled);
}

void Disk::write(uint64_t offset, kj::ArrayPtr<const kj::byte> data) {
  while (data.size() > 0) {
    ssize_t part = pwrite(fd, data.begin(), data.size(), static_cast<off_t>(offset));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) refuse(path, "be written", errno);
    offset += static_cast<uint64_t>(part);
    data = data.slice(static_cast<size_t>(part), data.size());
  }
}

void Disk::zero(uint64_t offset, uint64_t size, kj::FunctionParam<void(uint64_t)> progress) {
  for (uint64_t done = 0; done < size;) {
    uint64_t range[2] = {offset + done, kj::min(size - done, kZeroAtOnce)};
    if (ioctl(fd, BLKZEROOUT, range) != 0) refuse(path, "be wiped", errno);
    done += range[1];
    progress(done);
  }
  if (fsync(fd) != 0) refuse(path, "be wiped", errno);
}

kj::Maybe<gpt::Table> Disk::table() {
  return gpt::read([this](uint64_t offset, size_t size) { return read(offset, size); }, sector);
}

void Disk::writeTable(const gpt::Table& table) {
  auto old = this->table();
  auto steps =
      gpt::writes(table, sector, old.map([](gpt::Table& t) -> const gpt::Table& { return t; }));
  for (auto& step : steps) write(step.offset, step.bytes);
}

void Disk::setTable(const gpt::Table& table) {
  writeTable(table);
  rereadPartitions();
}

void Disk::rereadPartitions() {
  int error = retryWhile(EBUSY, [&] { return ioctl(fd, BLKRRPART); });
  if (error != 0) refuse(path, "have its partitions read", error);
}

namespace {

// Returns 0, or the error.
int changePartition(int disk, int operation, const Place& place) {
  struct blkpg_partition part = {};
  part.start = static_cast<long long>(place.offset);
  part.length = static_cast<long long>(place.size);
  part.pno = static_cast<int>(place.number);
  struct blkpg_ioctl_arg ask = {operation, 0, sizeof part, &part};
  return ioctl(disk, BLKPG, &ask) == 0 ? 0 : errno;
}

}  // namespace

void Disk::show(const Place& place) {
  if (ioctl(fd, BLKRRPART) == 0) return;
  if (errno != EBUSY) refuse(path, "have its partitions read", errno);
  int error = changePartition(fd, BLKPG_ADD_PARTITION, place);
  if (error != 0 && error != EBUSY) refuse(path, "show a partition", error);  // EBUSY: it exists
}

void Disk::resize(const Place& place) {
  int error = changePartition(fd, BLKPG_RESIZE_PARTITION, place);
  if (error != 0) refuse(path, "show that a partition has grown", error);
}

kj::String Disk::node(const Place& place) const {
  return partitionNode(path, place.number);
}

Found Disk::look(machined::FoundOnDisk onDisk) {
  Found found{kj::mv(onDisk)};
  KJ_IF_MAYBE (own, table()) {
    auto installed = installedOn(*own);
    // If the first sector is gone, someone may have erased it on purpose.
    if (own->inForce || installed == Installed::kUnfinished) found.installed = installed;
  }
  found.unknownData = !isZero(read(0, headOf(sector)));
  return found;
}

kj::Vector<kj::String> Disk::nodes() const {
  kj::Vector<kj::String> there;
  for (unsigned number = 1; number <= kMostNodes; ++number) {
    auto node = partitionNode(path, number);
    if (access(node.cStr(), F_OK) == 0) there.add(kj::mv(node));
  }
  return there;
}

}  // namespace talos::install
