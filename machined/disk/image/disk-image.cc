#include "machined/disk/image/disk-image.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "machined/disk/image/xfs-inodes.h"
#include "machined/disk/installer/boot-code.h"
#include "machined/disk/installer/file-systems.h"
#include "machined/disk/installer/locked-disk.h"
#include "machined/disk/installer/partition-layout.h"
#include "machined/disk/installer/synced-file.h"

namespace talos::install {
namespace {

constexpr unsigned kSector = 512;
constexpr size_t kPiece = 1u << 20;

// A digest of everything that differs between two images; identities are derived from it.
class Identity {
 public:
  Identity(const DiskImage& image, const System& system) {
    Sha256 sum;
    sum.add(kj::str(image.arguments, "\n", image.bytes, "\n", system.arch, "\n").asBytes());
    for (auto name : {"vmlinuz"_kj, "initramfs"_kj, bootProgramsOf(system.arch).efi}) {
      addFile(sum, kj::str(system.folder, "/", name));
    }
    addFile(sum, system.image);
    seed = sum.finish();
    struct stat kernel;
    KJ_SYSCALL(stat(kj::str(system.folder, "/vmlinuz").cStr(), &kernel), system.folder);
    date = static_cast<uint32_t>(kernel.st_mtim.tv_sec);
  }

  // Returns a UUID of version 8 (RFC 9562), a digest of `name`. Each name has its own.
  gpt::Guid guid(kj::StringPtr name) const {
    gpt::Guid made;
    auto digest = digestOf(name);
    memcpy(made.bytes, digest.begin(), sizeof made.bytes);
    made.bytes[7] = (made.bytes[7] & 0x0f) | 0x80;  // the third field is little-endian on disks
    made.bytes[8] = (made.bytes[8] & 0x3f) | 0x80;
    return made;
  }
  // Returns the same UUID as text, whose fields are in order.
  kj::String uuid(kj::StringPtr name) const {
    auto digest = digestOf(name);
    digest[6] = (digest[6] & 0x0f) | 0x80;
    digest[8] = (digest[8] & 0x3f) | 0x80;
    auto hex = kj::encodeHex(digest.slice(0, 16));
    return kj::str(hex.slice(0, 8), "-", hex.slice(8, 12), "-", hex.slice(12, 16), "-",
                   hex.slice(16, 20), "-", hex.slice(20, 32));
  }
  kj::String volumeId(kj::StringPtr name) const {
    return kj::encodeHex(digestOf(name).slice(0, 4));
  }

  uint32_t date;

 private:
  kj::Array<kj::byte> seed;

  static void addFile(Sha256& sum, kj::StringPtr path) {
    auto file = openFile(path);
    auto piece = kj::heapArray<kj::byte>(kPiece);
    for (ssize_t n;;) {
      KJ_SYSCALL(n = read(file, piece.begin(), piece.size()), path);
      if (n == 0) return;
      sum.add(piece.slice(0, static_cast<size_t>(n)));
    }
  }
  kj::Array<kj::byte> digestOf(kj::StringPtr name) const {
    Sha256 sum;
    sum.add(seed);
    sum.add(name.asBytes());
    return sum.finish();
  }
};

// A folder beside the image, on a disk with enough space for the image.
class ScratchFolder {
 public:
  explicit ScratchFolder(kj::StringPtr beside) : path(kj::str(beside, "-XXXXXX")) {
    KJ_REQUIRE(mkdtemp(path.begin()) != nullptr, "cannot make a folder", beside);
  }
  ~ScratchFolder() noexcept(false) { removeTree(path); }
  KJ_DISALLOW_COPY_AND_MOVE(ScratchFolder);

  kj::String at(kj::StringPtr name) const { return kj::str(path, "/", name); }
  kj::AutoCloseFd folder(kj::StringPtr name) const {
    makeDirectories(at(name), 0700);
    int fd;
    KJ_SYSCALL(fd = open(at(name).cStr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), path);
    return kj::AutoCloseFd(fd);
  }
  // Makes a file of zeros.
  kj::String file(kj::StringPtr name, uint64_t bytes) const {
    auto fd = newFile(at(name), bytes);
    return at(name);
  }
  static kj::AutoCloseFd newFile(kj::StringPtr path, uint64_t bytes) {
    int fd;
    KJ_SYSCALL(fd = open(path.cStr(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), path);
    kj::AutoCloseFd file(fd);
    KJ_SYSCALL(ftruncate(file, static_cast<off_t>(bytes)), path, bytes);
    return file;
  }

 private:
  kj::String path;
};

void put(int disk, uint64_t offset, kj::ArrayPtr<const kj::byte> bytes) {
  while (bytes.size() > 0) {
    ssize_t n;
    KJ_SYSCALL(n = pwrite(disk, bytes.begin(), bytes.size(), static_cast<off_t>(offset)));
    offset += static_cast<uint64_t>(n);
    bytes = bytes.slice(static_cast<size_t>(n), bytes.size());
  }
}

void putFileSystem(int disk, const Place& place, kj::StringPtr file) {
  auto from = openFile(file);
  auto piece = kj::heapArray<kj::byte>(kPiece);
  for (uint64_t at = 0; at < place.size;) {
    ssize_t n;
    KJ_SYSCALL(n = pread(from, piece.begin(), piece.size(), static_cast<off_t>(at)), file);
    KJ_REQUIRE(n > 0, "a file system is shorter than its partition", file);
    auto bytes = piece.slice(0, static_cast<size_t>(n));
    if (!isZero(bytes)) put(disk, place.offset + at, bytes);
    at += bytes.size();
  }
}

// mkfs.xfs(8), "protofile": an unused block and unused numbers, the top folder, its content, and
// "$" after each folder.
kj::String prototypeOf(kj::StringPtr files) {
  auto file = [&](kj::StringPtr folder, kj::StringPtr name) {
    return kj::str("  ", name, " ---600 0 0 ", files, "/", folder, "/", name, "\n");
  };
  return kj::str("/dev/null\n0 0\nd--700 0 0\n A d--700 0 0\n", file("A", "vmlinuz"),
                 file("A", "initramfs"), file("A", "version"), file("A", "boot.cfg"),
                 " $\n grub d--700 0 0\n", file("grub", "grubenv"), file("grub", "grub.cfg"),
                 " $\n$\n");
}

kj::String makeBoot(const ScratchFolder& scratch, uint64_t bytes, kj::StringPtr arguments,
                    const System& system, const Identity& identity) {
  putBootFiles(scratch.folder("boot"), arguments, system);
  writeFileAtomically(scratch.at("prototype"), prototypeOf(scratch.at("boot")), 0600);
  auto file = scratch.file("boot.xfs", bytes);
  auto prototype = scratch.at("prototype"), uuid = kj::str("uuid=", identity.uuid("BOOT's files"));
  const kj::StringPtr options[] = {"-p"_kj, prototype, "-m"_kj, uuid};
  makeBootXfs(file, options);
  setInodeDates(file, identity.date);
  return file;
}

kj::String makeEfi(const ScratchFolder& scratch, uint64_t bytes, const System& system,
                   const Identity& identity) {
  putEfiFiles(scratch.folder("efi"), system);
  auto file = scratch.file("efi.fat", bytes);
  auto date = kj::str("SOURCE_DATE_EPOCH=", identity.date), id = identity.volumeId("EFI's files");
  const kj::StringPtr environment[] = {date}, options[] = {"-i"_kj, id};
  makeFat(file, options, environment);
  auto tree = scratch.at("efi/EFI");
  kj::StringPtr command[] = {"/usr/bin/mcopy"_kj, "-s"_kj, "-i"_kj, file, tree, "::"_kj};
  runTool(command, environment);
  return file;
}

void putBootCode(int disk, const Place& bios, const System& system) {
  auto core = bios.offset / kBootSector;
  put(disk, bios.offset,
      coreImage(contentOf(kj::str(system.folder, "/core.img")), core, bios.size));
  auto first = kj::heapArray<kj::byte>(kBootSector);
  ssize_t n;
  KJ_SYSCALL(n = pread(disk, first.begin(), first.size(), 0));
  KJ_REQUIRE(n == first.size());
  put(disk, 0, bootSector(first, contentOf(kj::str(system.folder, "/boot.img")), core));
}

}  // namespace

void writeDiskImage(const DiskImage& image, const System& system) {
  Identity identity(image, system);
  auto table = layout(image.bytes, kSector);
  finish(table);
  table.disk = identity.guid("disk");
  for (auto& partition : table.partitions) partition.id = identity.guid(partition.name);
  auto place = [&](kj::StringPtr name) {
    return KJ_REQUIRE_NONNULL(find(table, name, kSector), name);
  };
  ScratchFolder scratch(image.file);
  auto disk = ScratchFolder::newFile(scratch.at("disk"), image.bytes);
  putFileSystem(disk, place(kEfi), makeEfi(scratch, place(kEfi).size, system, identity));
  putFileSystem(disk, place(kBoot),
                makeBoot(scratch, place(kBoot).size, image.arguments, system, identity));
  for (auto& write : gpt::writes(table, kSector)) put(disk, write.offset, write.bytes);
  if (bootProgramsOf(system.arch).bios) putBootCode(disk, place(kBios), system);
  KJ_SYSCALL(fsync(disk), image.file);
  KJ_SYSCALL(rename(scratch.at("disk").cStr(), image.file.cStr()), image.file);
}

}  // namespace talos::install
