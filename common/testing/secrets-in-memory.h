// Searches a secret in this process's memory: heap, stack, buffers of libraries; for tests. The
// secret is given as two halves, so that the search itself does not put it there.
#pragma once

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <kj/string.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/memory/zeroize.h"

namespace talos {

// Returns the number of copies. A copy in freed memory counts until the memory is overwritten.
inline unsigned copiesInMemory(kj::StringPtr first, kj::StringPtr second) {
  static char piece[1 << 20];
  auto count = [&](size_t size) {
    unsigned found = 0;
    for (char *at = piece, *end = piece + size;
         (at = static_cast<char*>(memmem(at, end - at, first.begin(), first.size()))) != nullptr;
         ++at) {
      size_t left = end - at - first.size();
      found +=
          left >= second.size() && memcmp(at + first.size(), second.begin(), second.size()) == 0;
    }
    return found;
  };
  unsigned total = 0;
  int fd;
  KJ_SYSCALL(fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  kj::AutoCloseFd memory(fd);
  FILE* maps = fopen("/proc/self/maps", "re");
  KJ_REQUIRE(maps != nullptr);
  KJ_DEFER(fclose(maps));
  const size_t overlap = first.size() + second.size() - 1;
  char line[512];
  while (fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long start, end;
    char access[8];
    KJ_REQUIRE(sscanf(line, "%lx-%lx %7s", &start, &end, access) == 3, line);
    if (access[0] != 'r' || access[1] != 'w') continue;
    auto own = reinterpret_cast<unsigned long>(piece);
    for (auto at = start; at < end;) {
      ssize_t size = pread(fd, piece, kj::min(sizeof(piece), end - at), static_cast<off_t>(at));
      if (size <= 0) break;
      // Skips the bytes that this function has just read.
      if (at < own + sizeof(piece) && own < at + static_cast<size_t>(size)) {
        auto from = own > at ? own - at : 0;
        auto until = kj::min(own + sizeof(piece) - at, static_cast<size_t>(size));
        memset(piece + from, 0, until - from);
      }
      total += count(static_cast<size_t>(size));
      explicit_bzero(piece, sizeof(piece));
      if (static_cast<size_t>(size) <= overlap) break;
      at += static_cast<size_t>(size) - (at + static_cast<size_t>(size) < end ? overlap : 0);
    }
  }
  return total;
}

struct TestSecret {
  kj::StringPtr first, second;
  size_t size() const { return first.size() + second.size(); }
  kj::String text() const { return kj::str(first, second); }  // the caller must zeroize() it
  unsigned copies() const { return copiesInMemory(first, second); }
};

}  // namespace talos
