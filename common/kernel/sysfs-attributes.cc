#include "common/kernel/sysfs-attributes.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"

namespace talos {

constexpr size_t kMostOfAttribute = 64u << 10;

kj::Maybe<kj::String> readAttribute(kj::StringPtr device, kj::StringPtr name) {
  kj::Maybe<kj::String> text;
  // A device may disappear meanwhile: ENODEV in the middle of a read.
  if (kj::runCatchingExceptions(
          [&]() { text = tryReadFile(kj::str(device, "/", name), kMostOfAttribute); }) != nullptr) {
    return nullptr;
  }
  return text;
}

kj::Maybe<kj::String> readAttributeLine(kj::StringPtr device, kj::StringPtr name) {
  return readAttribute(device, name).map([](kj::String&& text) {
    size_t begin = 0, end = text.size();
    auto blank = [&](char c) { return c == ' ' || c == '\n' || c == '\t' || c == 0; };
    while (begin < end && blank(text[begin])) ++begin;
    while (end > begin && blank(text[end - 1])) --end;
    return kj::heapString(text.slice(begin, end));
  });
}

kj::String nameOfTarget(kj::StringPtr link) {
  char target[PATH_MAX];
  ssize_t size = readlink(link.cStr(), target, sizeof(target));
  if (size <= 0) return kj::String();
  auto path = kj::heapString(target, static_cast<size_t>(size));
  KJ_IF_MAYBE (slash, path.findLast('/')) return kj::heapString(path.slice(*slash + 1));
  return path;
}

kj::Maybe<kj::String> resolvedPath(kj::StringPtr path) {
  char resolved[PATH_MAX];
  if (realpath(path.cStr(), resolved) == nullptr) return nullptr;
  return kj::str(resolved);
}

}  // namespace talos
