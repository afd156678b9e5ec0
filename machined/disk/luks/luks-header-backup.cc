#include "machined/disk/luks/luks-header-backup.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/disk/volume-labels.h"

namespace talos::luks {
namespace {

constexpr size_t kDigest = 32, kFilePiece = 64u << 10;
constexpr size_t kMost = 64u << 20;      // of a header
constexpr size_t kMetadata = 32u << 10;  // both copies; they say where the keys are

using Bytes = kj::ArrayPtr<const kj::byte>;

kj::String markOf(kj::StringPtr file) {
  return kj::str(file, ".changing");
}
kj::String refusedOf(kj::StringPtr file) {
  return kj::str(file, ".refused");
}
// The same, while the header is being replaced.
kj::String replacedOf(kj::StringPtr file) {
  return kj::str(file, ".replaced");
}
kj::String unfinishedOf(kj::StringPtr file) {
  return kj::str(file, ".unfinished");
}

kj::AutoCloseFd openFile(kj::StringPtr path, int flags, mode_t mode = 0) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), flags | O_CLOEXEC, mode), path);
  return kj::AutoCloseFd(fd);
}

void flushFolder(kj::StringPtr file) {
  syncFolder(folderOf(file));
}

bool exists(kj::StringPtr path) {
  struct stat info;
  if (stat(path.cStr(), &info) == 0) return true;
  KJ_REQUIRE(errno == ENOENT, "cannot look at", path, strerror(errno));
  return false;
}

bool allZero(Bytes bytes) {
  for (auto b : bytes) {
    if (b != 0) return false;
  }
  return true;
}

void write(int fd, Bytes bytes, uint64_t at) {
  while (bytes.size() > 0) {
    ssize_t n;
    KJ_SYSCALL(n = pwrite(fd, bytes.begin(), bytes.size(), static_cast<off_t>(at)));
    bytes = bytes.slice(n, bytes.size());
    at += n;
  }
}

void digestOf(Bytes bytes, kj::byte (&out)[kDigest]) {
  KJ_REQUIRE(EVP_Digest(bytes.begin(), bytes.size(), out, nullptr, EVP_sha256(), nullptr) == 1);
}

// Returns the header in the backup; nullptr if the file is missing or incomplete.
kj::Maybe<kj::Array<kj::byte>> readBackup(kj::StringPtr file) {
  if (!exists(file)) return nullptr;
  auto bytes = kj::heapArray<kj::byte>(kMost + kDigest);
  auto size = readAt(openFile(file, O_RDONLY), 0, bytes, file);
  bytes = kj::heapArray<kj::byte>(bytes.slice(0, size));
  if (bytes.size() <= kMetadata + kDigest) return nullptr;
  auto header = bytes.slice(0, bytes.size() - kDigest);
  kj::byte digest[kDigest];
  digestOf(header, digest);
  if (bytes.slice(header.size(), bytes.size()) != kj::arrayPtr(digest, kDigest)) return nullptr;
  return kj::heapArray<kj::byte>(header);
}

void writeFile(kj::StringPtr file, Bytes header) {
  kj::byte digest[kDigest];
  digestOf(header, digest);
  auto unfinished = unfinishedOf(file);
  {
    auto fd = openFile(unfinished, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (size_t at = 0; at < header.size(); at += kFilePiece) {
      auto piece = header.slice(at, kj::min(header.size(), at + kFilePiece));
      if (!allZero(piece)) write(fd, piece, at);
    }
    write(fd, kj::arrayPtr(digest, kDigest), header.size());
    KJ_SYSCALL(fsync(fd), unfinished);
  }
  KJ_SYSCALL(rename(unfinished.cStr(), file.cStr()), file);
  flushFolder(file);
}

void removeFile(kj::StringPtr path) {
  KJ_REQUIRE(unlink(path.cStr()) == 0 || errno == ENOENT, "cannot remove", path, strerror(errno));
}

void makeFolderOf(kj::StringPtr file) {
  auto folder = kj::heapString(file.slice(0, KJ_ASSERT_NONNULL(file.findLast('/'))));
  if (mkdir(folder.cStr(), 0700) == 0) return flushFolder(folder);
  KJ_REQUIRE(errno == EEXIST, "cannot make", folder, strerror(errno));
}

// Completes a restoration, if one was begun.
void keepReplaced(kj::StringPtr file) {
  if (!exists(replacedOf(file))) return;
  KJ_SYSCALL(rename(replacedOf(file).cStr(), refusedOf(file).cStr()), file);
  flushFolder(file);
}

[[noreturn]] void refuseRestore(Device& device, kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, kj::str("the LUKS2 header of ", device.node(),
                                               " is not restored from its backup: ", problem));
}

}  // namespace

Comparison compareHeader(Device& device, kj::StringPtr file) {
  if (exists(markOf(file))) return Comparison::CHANGING;
  KJ_IF_MAYBE (backup, readBackup(file)) {
    bool same = device.content() == Content::LUKS && device.header().asPtr() == *backup;
    if (same) keepReplaced(file);
    return same ? Comparison::SAME : Comparison::OTHER;
  }
  return exists(file) ? Comparison::DAMAGED : Comparison::NONE;
}

void markHeader(kj::StringPtr file) {
  makeFolderOf(file);
  KJ_SYSCALL(fsync(openFile(markOf(file), O_WRONLY | O_CREAT, 0600)), file);
  flushFolder(file);
}

void backupHeader(Device& device, kj::StringPtr file, bool last) {
  makeFolderOf(file);
  writeFile(file, device.header());
  if (!last) return;
  keepReplaced(file);
  removeFile(markOf(file));
  flushFolder(file);
}

void forgetHeader(kj::StringPtr file) {
  bool changed = false;
  // All files that may hold a header with its keys.
  for (auto& path : {unfinishedOf(file), unfinishedOf(replacedOf(file)), kj::str(file),
                     replacedOf(file), refusedOf(file), markOf(file)}) {
    if (!exists(path)) continue;
    removeFile(path);
    changed = true;
  }
  if (changed) flushFolder(file);
}

void restoreHeader(Device& device, kj::StringPtr file, kj::ArrayPtr<const Key> keys) {
  auto name = file.slice(file.findLast('/').map([](size_t at) { return at + 1; }).orDefault(0));
  if (device.content() == Content::EMPTY && !isVolumeLabel(name))
    refuseRestore(device, "the partition is empty");
  auto backup = readBackup(file);
  KJ_IF_MAYBE (header, backup) {
    Device good(file);
    if (device.content() == Content::LUKS && device.uuid() != good.uuid()) {
      refuseRestore(device,
                    kj::str("it is another volume's, ", device.uuid(), " and not ", good.uuid()));
    }
    if (!good.isHeaderOf(device.node(), keys)) {
      refuseRestore(device, "no key of the config opens the data with it");
    }
    auto fd = openFile(device.node(), O_RDWR);
    // If it exists, a restoration was cut off, and the device has a part of each header.
    if (!exists(replacedOf(file))) {
      auto found = kj::heapArray<kj::byte>(header->size());
      auto size = readAt(fd, 0, found, device.node());
      writeFile(replacedOf(file), found.slice(0, size));
    }
    // A readable header says where the keys are, so the metadata is written after the keys.
    write(fd, header->slice(kMetadata, header->size()), kMetadata);
    KJ_SYSCALL(fsync(fd));
    write(fd, header->slice(0, kMetadata), 0);
    KJ_SYSCALL(fsync(fd));
    return keepReplaced(file);
  }
  refuseRestore(device, kj::str(file, " has no intact header"));
}

}  // namespace talos::luks
