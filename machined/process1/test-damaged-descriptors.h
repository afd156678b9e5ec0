// Damaged contents of a held descriptor: files of the wrong kind, too large, empty, of noise. All
// code that recovers from a held descriptor is tested with all of them.
#pragma once

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/vector.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

namespace talos::machined {

struct Garbage {
  kj::StringPtr what;
  kj::AutoCloseFd fd;
};

inline kj::AutoCloseFd memoryFile(kj::ArrayPtr<const kj::byte> content) {
  int fd;
  KJ_SYSCALL(fd = memfd_create("garbage", MFD_CLOEXEC));
  kj::AutoCloseFd file(fd);
  kj::FdOutputStream(fd).write(content.begin(), content.size());
  return file;
}

inline kj::AutoCloseFd noise(size_t size, kj::StringPtr beginning = "") {
  std::minstd_rand random(1);
  auto bytes = kj::heapArray<kj::byte>(size);
  for (auto& b : bytes) b = static_cast<kj::byte>(random());
  memcpy(bytes.begin(), beginning.begin(), kj::min(size, beginning.size()));
  return memoryFile(bytes);
}

// Returns damaged contents. `beginning`: the first bytes that the reader checks, so that noise gets
// past the check.
inline kj::Vector<Garbage> garbage(kj::StringPtr beginning) {
  kj::Vector<Garbage> all;
  auto opened = [](const char* path, int flags) {
    int fd;
    KJ_SYSCALL(fd = open(path, flags | O_CLOEXEC), path);
    return kj::AutoCloseFd(fd);
  };
  all.add(Garbage{"an empty file", memoryFile(nullptr)});
  all.add(Garbage{"seven bytes", noise(7)});
  all.add(Garbage{"noise", noise(100'000)});
  all.add(Garbage{"noise behind a good beginning", noise(100'000, beginning)});
  auto huge = noise(4096, beginning);
  KJ_SYSCALL(ftruncate(huge, int64_t(1) << 40));
  all.add(Garbage{"a terabyte", kj::mv(huge)});
  all.add(Garbage{"a directory", opened("/", O_RDONLY | O_DIRECTORY)});
  all.add(Garbage{"a device", opened("/dev/null", O_RDWR)});
  all.add(Garbage{"a file that cannot be read", opened("/dev/null", O_WRONLY)});
  all.add(Garbage{"a path", opened("/", O_PATH)});
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
  all.add(Garbage{"the end of a pipe that nobody writes", kj::AutoCloseFd(ends[0])});
  all.add(Garbage{"the writing end of a pipe", kj::AutoCloseFd(ends[1])});
  KJ_SYSCALL(ends[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  all.add(Garbage{"a socket", kj::AutoCloseFd(ends[0])});
  return all;
}

}  // namespace talos::machined
