#include "machined/disk/installer/synced-file.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "machined/disk/installer/initramfs-archive.h"

namespace talos::install {
namespace {
constexpr size_t kCopyPiece = 1u << 20;
}  // namespace

kj::AutoCloseFd openFile(kj::StringPtr path) {
  int fd = open(path.cStr(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("this system cannot be installed: cannot open ", path, ": ", strerror(errno)));
  }
  return kj::AutoCloseFd(fd);
}

uint64_t sizeOf(int fd) {
  struct stat info;
  KJ_SYSCALL(fstat(fd, &info));
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (S_ISBLK(info.st_mode)) {
    KJ_SYSCALL(ioctl(fd, BLKGETSIZE64, &size));
  }
  return size;
}

kj::Array<kj::byte> contentOf(kj::StringPtr path) {
  auto fd = openFile(path);
  return kj::FdInputStream(fd.get()).readAllBytes();
}

NewFile::NewFile(int folder, kj::StringPtr name, mode_t mode) : name(name) {
  int raw;
  KJ_SYSCALL(raw = openat(folder, name.cStr(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode),
             name);
  fd = kj::AutoCloseFd(raw);
}

void NewFile::add(kj::ArrayPtr<const kj::byte> bytes) {
  digest.add(bytes);
  while (bytes.size() > 0) {
    ssize_t n;
    KJ_SYSCALL(n = ::write(fd, bytes.begin(), bytes.size()), name);
    bytes = bytes.slice(static_cast<size_t>(n), bytes.size());
  }
}

FileRange wholeOf(int fd) {
  return {fd, 0, sizeOf(fd)};
}

void NewFile::addAll(FileRange from, kj::Maybe<Sha256&> part) {
  auto block = kj::heapArray<kj::byte>(kCopyPiece);
  for (uint64_t done = 0; done < from.size;) {
    ssize_t n;
    KJ_SYSCALL(n = pread(from.fd, block.begin(), kj::min(block.size(), from.size - done),
                         static_cast<off_t>(from.begin + done)),
               name);
    if (n == 0) fail(ErrorKind::kFailedPrecondition, kj::str(name, ": its source was cut off"));
    auto bytes = block.slice(0, static_cast<size_t>(n));
    KJ_IF_MAYBE (p, part) p->add(bytes);
    add(bytes);
    done += static_cast<uint64_t>(n);
  }
}

kj::String NewFile::sync() {
  KJ_SYSCALL(fsync(fd), name);
  return digest.hex();
}

void putFile(int folder, kj::StringPtr name, kj::ArrayPtr<const char> text, mode_t mode) {
  NewFile file(folder, name, mode);
  file.add(text);
  file.sync();
}

void copyFile(int folder, kj::StringPtr name, kj::StringPtr from) {
  NewFile file(folder, name, 0600);
  auto source = openFile(from);
  file.addAll(wholeOf(source));
  file.sync();
}

void makeFolder(int above, kj::StringPtr name) {
  if (mkdirat(above, name.cStr(), 0700) != 0 && errno != EEXIST) {
    KJ_FAIL_SYSCALL("mkdir", errno, name);
  }
}

void syncAll(int mount) {
  int raw;  // a mount's descriptor is good for paths only
  KJ_SYSCALL(raw = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  kj::AutoCloseFd top(raw);
  KJ_SYSCALL(syncfs(top));
}

kj::String writeInitramfs(int folder, kj::StringPtr name, FileRange early, FileRange image,
                          kj::Maybe<InitramfsParts&> parts) {
  auto wrapping = wrapRootImage(image.size);
  NewFile file(folder, name, 0600);
  file.addAll(early, parts.map([](InitramfsParts& p) -> Sha256& { return p.early; }));
  file.add(wrapping.before);
  file.addAll(image, parts.map([](InitramfsParts& p) -> Sha256& { return p.image; }));
  file.add(wrapping.after);
  return file.sync();
}

}  // namespace talos::install
