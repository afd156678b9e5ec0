#include "machined/system/setting-files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr size_t kLargestValue = 65536;

}  // namespace

kj::String lineOf(kj::StringPtr value) {
  return value.endsWith("\n") ? kj::str(value) : kj::str(value, "\n");
}

void SettingFiles::write(kj::StringPtr path, kj::StringPtr value) const {
  auto file = open(path, O_WRONLY);
  auto line = lineOf(value);
  ssize_t written = ::write(file, line.begin(), line.size());
  if (written < 0) fail(ErrorKind::kFailedPrecondition, strerror(errno));
}

kj::Maybe<kj::String> SettingFiles::tryRead(kj::StringPtr path) const {
  kj::Maybe<kj::String> result;
  // Some files can only be written.
  auto ignored = kj::runCatchingExceptions([&]() {
    auto text = readAll(open(path, O_RDONLY), kLargestValue);
    result = kj::heapString(text.begin(), text.size());
  });
  return result;
}

bool SettingFiles::has(kj::StringPtr path) const {
  return tryOpen(tree, path, O_PATH, links) != nullptr;
}

kj::AutoCloseFd SettingFiles::open(kj::StringPtr path, int flags) const {
  auto file = tryOpen(tree, path, flags, links);
  KJ_IF_MAYBE (fd, file) return kj::mv(*fd);
  fail(ErrorKind::kNotFound, missing);
}

}  // namespace talos::machined
