#include "machined/disk/devices/sysfs.h"

#include <string.h>

#include "common/base/file.h"

namespace talos::machined {

constexpr size_t kMostOfAFile = 64u << 10;

kj::Maybe<kj::String> readAttribute(kj::StringPtr device, kj::StringPtr name) {
  kj::Maybe<kj::String> text;
  // A device that goes meanwhile: ENODEV in the middle of a read.
  if (kj::runCatchingExceptions(
          [&]() { text = tryReadFile(kj::str(device, "/", name), kMostOfAFile); }) != nullptr) {
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

}  // namespace talos::machined
