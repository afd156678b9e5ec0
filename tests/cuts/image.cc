#include "tests/cuts/image.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "machined/disk/installer/synced-file.h"
#include "machined/disk/volumes/mount-volume.h"
#include "tests/harness/process.h"

namespace talos::cuts {
namespace {

constexpr unsigned kSectorSize = 512;
constexpr size_t kMostConfig = 4 << 20;
constexpr unsigned kLoopTries = 100;  // others may take the free one first

kj::AutoCloseFd openImage(const std::string& path, int flags) {
  int raw;
  KJ_SYSCALL(raw = open(path.c_str(), flags | O_CLOEXEC, 0600), path.c_str());
  return kj::AutoCloseFd(raw);
}

void readAt(int fd, uint64_t offset, kj::ArrayPtr<kj::byte> into) {
  while (into.size() > 0) {
    ssize_t n;
    KJ_SYSCALL(n = pread(fd, into.begin(), into.size(), static_cast<off_t>(offset)));
    KJ_REQUIRE(n > 0, "an image is too short");
    into = into.slice(static_cast<size_t>(n), into.size());
    offset += static_cast<size_t>(n);
  }
}

// Visits the data of a part without its holes, in pieces with their offsets in the part.
void forEachPiece(const std::string& image, const Part& part,
                  const std::function<void(uint64_t offset, std::string_view bytes)>& each) {
  constexpr off_t kPiece = 1 << 20;
  auto from = openImage(image, O_RDONLY);
  auto begin = static_cast<off_t>(part.offset), end = begin + static_cast<off_t>(part.size);
  std::string block(kPiece, '\0');
  for (auto at = begin;;) {
    at = lseek(from, at, SEEK_DATA);
    if (at < 0 || at >= end) return;
    // Pieces begin at the same places whatever the holes.
    auto stop = std::min(end, begin + (at - begin) / kPiece * kPiece + kPiece);
    auto size = static_cast<size_t>(stop - at);
    readAt(from, static_cast<uint64_t>(at),
           kj::arrayPtr(reinterpret_cast<kj::byte*>(block.data()), size));
    each(static_cast<uint64_t>(at - begin), std::string_view(block.data(), size));
    at = stop;
  }
}

}  // namespace

std::string bytesOf(const std::string& image, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  readAt(openImage(image, O_RDONLY), offset,
         kj::arrayPtr(reinterpret_cast<kj::byte*>(bytes.data()), size));
  return bytes;
}

kj::Maybe<gpt::Table> tableOf(const std::string& image) {
  auto fd = openImage(image, O_RDONLY);
  auto bytes = [&](uint64_t offset, size_t size) {
    auto block = kj::heapArray<kj::byte>(size);
    ssize_t n;
    KJ_SYSCALL(n = pread(fd, block.begin(), size, static_cast<off_t>(offset)));
    return kj::heapArray<const kj::byte>(block.begin(), static_cast<size_t>(n));
  };
  auto table = gpt::read(bytes, kSectorSize);
  KJ_IF_MAYBE (it, table) {
    if (!it->inForce) return nullptr;
  }
  return table;
}

kj::Maybe<Part> findPart(const std::string& image, const std::string& name) {
  auto table = tableOf(image);
  KJ_IF_MAYBE (it, table) {
    for (auto i : kj::indices(it->partitions)) {
      auto& partition = it->partitions[i];
      if (partition.name != name.c_str()) continue;
      return Part{unsigned(i + 1), partition.first * kSectorSize,
                  (partition.last + 1 - partition.first) * kSectorSize};
    }
  }
  return nullptr;
}

Part part(const std::string& image, const std::string& name) {
  auto found = findPart(image, name);
  return KJ_REQUIRE_NONNULL(found, "there is no such partition", name.c_str());
}

std::string metaValue(const std::string& image, uint32_t tag) {
  auto meta = part(image, "META");
  auto bytes = bytesOf(image, meta.offset, meta.size);
  machined::MetaValues values(kj::arrayPtr(bytes.data(), bytes.size()).asBytes());
  KJ_IF_MAYBE (value, values.get(tag)) {
    return std::string(value->asChars().begin(), value->size());
  }
  return "";
}

LoopDevice::LoopDevice(const std::string& image, uint64_t offset, uint64_t size) {
  auto file = openImage(image, O_RDWR), control = openImage("/dev/loop-control", O_RDWR);
  for (unsigned i = 0; i < kLoopTries; ++i) {
    int number;
    KJ_SYSCALL(number = ioctl(control, LOOP_CTL_GET_FREE));
    path = "/dev/loop" + std::to_string(number);
    // The open fails if another process has removed the device meanwhile.
    int raw = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (raw < 0 && (errno == ENXIO || errno == ENOENT)) continue;
    KJ_SYSCALL(raw, path.c_str());
    fd = kj::AutoCloseFd(raw);
    loop_config config{};
    config.fd = static_cast<__u32>(file.get());
    config.info.lo_offset = offset;
    config.info.lo_sizelimit = size;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) return;
    if (errno != EBUSY && errno != ENXIO) KJ_FAIL_SYSCALL("LOOP_CONFIGURE", errno, path.c_str());
  }
  KJ_FAIL_REQUIRE("all loop devices are in use");
}

bool isAllZeros(const std::string& image, const Part& part) {
  bool zeros = true;
  forEachPiece(image, part, [&](uint64_t, std::string_view bytes) {
    zeros = zeros && bytes.find_first_not_of('\0') == bytes.npos;
  });
  return zeros;
}

size_t contentKey(const std::string& image, const Part& part) {
  size_t key = 0;
  forEachPiece(image, part, [&](uint64_t offset, std::string_view bytes) {
    if (bytes.find_first_not_of('\0') == bytes.npos) return;
    key = key * 31 + std::hash<std::string_view>()(bytes) + offset;
  });
  return key;
}

PartCopy::PartCopy(const std::string& image, const Part& part, const std::string& folder)
    : file(folder + "/part-" + std::to_string(part.number)) {
  auto to = openImage(file, O_RDWR | O_CREAT | O_TRUNC);
  KJ_SYSCALL(ftruncate(to, static_cast<off_t>(part.size)));
  forEachPiece(image, part, [&](uint64_t offset, std::string_view bytes) {
    ssize_t n;
    KJ_SYSCALL(n = pwrite(to, bytes.data(), bytes.size(), static_cast<off_t>(offset)));
    KJ_REQUIRE(n == bytes.size());
  });
}

PartCopy::~PartCopy() {
  unlink(file.c_str());
}

kj::Maybe<std::string> fileOfXfs(const std::string& image, const Part& part,
                                 const std::string& folder, const char* name) {
  PartCopy copy(image, part, folder);
  LoopDevice device(copy.path());
  auto mount = machined::openFileSystem(device.node().c_str(), machined::FileSystem::kXfs,
                                        machined::MountAccess::kReadWrite);
  KJ_IF_MAYBE (text, machined::readFileAt(mount, name, kMostConfig)) {
    return std::string(text->begin(), text->size());
  }
  return nullptr;
}

void overwrite(const std::string& image, uint64_t offset, std::string_view bytes) {
  auto to = openImage(image, O_WRONLY);
  ssize_t n;
  KJ_SYSCALL(n = pwrite(to, bytes.data(), bytes.size(), static_cast<off_t>(offset)));
  KJ_REQUIRE(n == ssize_t(bytes.size()));
}

void fillXfs(const std::string& image, const Part& part, const std::string& folder) {
  constexpr size_t kFirstPiece = 1 << 20, kLastPiece = 512;
  LoopDevice device(image, part.offset, part.size);
  std::filesystem::create_directories(folder);
  KJ_SYSCALL(mount(device.node().c_str(), folder.c_str(), "xfs", 0, nullptr));
  KJ_DEFER(umount(folder.c_str()));
  auto file = openImage(folder + "/filler", O_WRONLY | O_CREAT);
  std::string bytes(kFirstPiece, 'x');
  for (size_t piece = kFirstPiece; piece >= kLastPiece;) {
    if (write(file, bytes.data(), piece) != ssize_t(piece)) piece /= 2;
  }
  KJ_REQUIRE(errno == ENOSPC, strerror(errno));
  KJ_SYSCALL(fsync(file));
}

kj::Maybe<std::string> bootLoaderFile(const std::string& image, unsigned partition,
                                      const std::string& path, const std::string& folder) {
  auto out = folder + "/from-boot-loader";
  std::filesystem::remove(out);
  auto result = harness::run({"/usr/bin/grub-fstest", image, "cp",
                              "(loop0,gpt" + std::to_string(partition) + ")" + path, out},
                             60);
  if (result.status != 0 || !result.err.empty()) return nullptr;
  return harness::slurp(out);
}

std::string digestOf(const std::string& text) {
  Sha256 digest;
  digest.add(kj::arrayPtr(text.data(), text.size()).asBytes());
  return digest.hex().cStr();
}

}  // namespace talos::cuts
