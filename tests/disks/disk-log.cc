#include "tests/disks/disk-log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"

namespace talos::disk {
namespace {

constexpr size_t kContentPiece = 1 << 20;

template <typename T>
kj::ArrayPtr<const kj::byte> bytesOf(const T& value) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(&value), sizeof value);
}

kj::AutoCloseFd makeFile(kj::StringPtr path) {
  int fd = open(path.cStr(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) return kj::AutoCloseFd(fd);
  if (errno == EEXIST) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str(path, " exists; remove it or choose another file"));
  }
  fail(ErrorKind::kFailedPrecondition, kj::str("cannot create ", path, ": ", strerror(errno)));
}

}  // namespace

DiskLog::DiskLog(kj::StringPtr path, uint64_t limit)
    : path(kj::str(path)), file(makeFile(path)), limit(limit) {}

void DiskLog::addDisks(kj::ArrayPtr<Medium*> media) {
  put(bytesOf(LogHead()));
  for (auto i : kj::indices(media)) {
    put({.kind = LogKind::kDisk, .disk = uint32_t(i), .length = media[i]->size()}, nullptr);
  }
  for (auto i : kj::indices(media)) addContent(uint32_t(i), *media[i]);
}

void DiskLog::addContent(uint32_t disk, Medium& medium) {
  for (uint64_t at = 0, end = medium.size(); at < end;) {
    KJ_IF_MAYBE (range, medium.content({at, end})) {
      auto data = kj::heapArray<kj::byte>(kj::min(range->end - range->begin, kContentPiece));
      medium.read(range->begin, data);
      put({.kind = LogKind::kContent, .disk = disk, .offset = range->begin, .length = data.size()},
          data);
      at = range->begin + data.size();
    } else {
      return;
    }
  }
}

void DiskLog::add(const LogRecord& record, kj::ArrayPtr<const kj::byte> data) noexcept {
  if (problem.size() > 0) return;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { put(record, data); })) {
    problem = messageOf(*e);
    return;
  }
  ++events;
  writes += record.kind != LogKind::kFlush;
}

void DiskLog::put(const LogRecord& record, kj::ArrayPtr<const kj::byte> data) {
  if (bytes + sizeof record + data.size() > limit) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(path, " would have more than ", limit >> 20, " MiB"));
  }
  put(bytesOf(record));
  put(data);
}

void DiskLog::put(kj::ArrayPtr<const kj::byte> data) {
  while (data.size() > 0) {
    ssize_t n = write(file, data.begin(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      fail(ErrorKind::kResourceExhausted, kj::str("cannot write ", path, ": ", strerror(errno)));
    }
    data = data.slice(static_cast<size_t>(n), data.size());
    bytes += static_cast<size_t>(n);
  }
}

}  // namespace talos::disk
