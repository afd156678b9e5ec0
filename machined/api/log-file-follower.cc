#include "machined/api/log-file-follower.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/within.h"

namespace talos::machined {
namespace {

// Larger than the CRI's longest line (16 KiB and its head), and smaller than a message of the wire.
constexpr size_t kPart = 32768;

// Limit for one piece, including its wait in the pool.
constexpr auto kTimeout = 60 * kj::SECONDS;

// Opens the file without following a link or waiting for a pipe's writer.
kj::AutoCloseFd openLineFile(kj::StringPtr path) {
  int fd = open(path.cStr(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    fail(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kUnavailable,
         kj::str(path, ": ", strerror(errno)));
  }
  kj::AutoCloseFd owned(fd);
  struct stat status;
  KJ_SYSCALL(fstat(fd, &status), path);
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorKind::kInvalidArgument, kj::str(path, ": not a regular file"));
  }
  return owned;
}

// Reads up to `size` bytes at an offset; fewer only at the end.
kj::Array<char> partAt(int fd, uint64_t offset, size_t size) {
  auto buffer = kj::heapArray<char>(size);
  size_t done = 0;
  while (done < size) {
    ssize_t n;
    KJ_SYSCALL(
        n = pread(fd, buffer.begin() + done, size - done, static_cast<off_t>(offset + done)));
    if (n == 0) break;
    done += n;
  }
  return kj::heapArray(buffer.slice(0, done));
}

// Returns the offset after the last whole line, or the end of a part of full length without any
// newline.
size_t endOfLines(kj::ArrayPtr<const char> part) {
  size_t end = part.size();
  while (end > 0 && part[end - 1] != '\n') --end;
  return end == 0 && part.size() == kPart ? kPart : end;
}

uint64_t sizeOf(int fd) {
  struct stat status;
  KJ_SYSCALL(fstat(fd, &status));
  return status.st_size;
}

// Returns the offset at which the last `lines` lines begin.
uint64_t tailOf(int fd, int lines) {
  uint64_t end = sizeOf(fd);
  if (end == 0 || lines == 0) return end;
  // The newline at the end of the last line does not begin another one.
  uint64_t at = end - 1;
  while (at > 0) {
    uint64_t begin = at > kPart ? at - kPart : 0;
    auto part = partAt(fd, begin, at - begin);
    for (size_t i = part.size(); i > 0; --i) {
      if (part[i - 1] == '\n' && --lines == 0) return begin + i;
    }
    at = begin;
  }
  return 0;
}

LineFilter copyOf(const LineFilter& filter) {
  return {.contains = kj::str(filter.contains), .since = filter.since};
}

// Calls `take(line, offset of the line)` with all lines; a line that is too long comes in parts.
// Ends when `take` returns false.
template <typename F>
void eachLine(int fd, F&& take) {
  for (uint64_t at = 0;;) {
    auto part = partAt(fd, at, kPart);
    auto lines = part.slice(0, endOfLines(part));
    if (lines.size() == 0) {  // the last line, without its newline
      if (part.size() > 0) take(part.asPtr(), at);
      return;
    }
    uint64_t begin = at;
    for (auto line : Lines(lines)) {
      if (!take(line, begin)) return;
      begin += line.size() + 1;
    }
    at += lines.size();
  }
}

// Returns the offset at which the last `count` lines that pass the filter begin: counts them first,
// then skips the earlier ones.
uint64_t tailOf(int fd, int count, const LineFilter& filter) {
  if (filter.keepsAll()) return tailOf(fd, count);
  uint64_t end = sizeOf(fd), place = end;
  int64_t kept = 0;
  auto counting = copyOf(filter), skipping = copyOf(filter);
  eachLine(fd, [&](auto line, uint64_t) {
    kept += counting.keeps(line);
    return true;
  });
  eachLine(fd, [&](auto line, uint64_t begin) {
    if (!skipping.keeps(line) || kept-- > count) return true;
    place = begin;
    return false;
  });
  return place;
}

bool isAt(kj::StringPtr path, int fd) {
  struct stat named, opened;
  KJ_SYSCALL(fstat(fd, &opened));
  if (stat(path.cStr(), &named) != 0) return false;
  return named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

class LineFileReader {
 public:
  LineFileReader(LineFileSource source, kj::String path, LineFile what, rpc::LogSink::Client sink)
      : source(source), path(kj::mv(path)), what(kj::mv(what)), sink(kj::mv(sink)) {
    if (this->what.from > 0) this->what.filter.since = nullptr;
  }

  kj::Promise<void> run() {
    if (what.follow) watch();
    co_await begin();
    for (;;) {
      while (co_await sendPart()) {
      }
      if (!what.follow) co_return co_await sendRest();
      if (co_await rotated()) continue;
      co_await somethingHappened();
    }
  }

 private:
  LineFileSource source;
  kj::String path;
  LineFile what;
  rpc::LogSink::Client sink;
  // Shared with work in the pool whose caller may no longer wait.
  struct Opened : public kj::AtomicRefcounted {
    kj::AutoCloseFd fd;
  };
  kj::Own<Opened> file;
  uint64_t at = 0;
  kj::Array<char> rest;  // the incomplete line at the end
  kj::AutoCloseFd changes;
  kj::Maybe<kj::Own<kj::UnixEventPort::FdObserver>> observer;

  template <typename F>
  auto inPool(F&& work) {
    return within(source.timer, kTimeout, source.pool.run("reading a log", kj::fwd<F>(work)),
                  kj::str("reading ", path, " timed out after ", kTimeout / kj::SECONDS, " s"));
  }

  kj::Promise<void> begin() {
    struct Begun {
      kj::Own<Opened> file;
      uint64_t at;
    };
    auto begun = co_await inPool([path = kj::str(path), from = what.from,
                                  tailLines = what.tailLines, filter = copyOf(what.filter)]() {
      Begun result{kj::atomicRefcounted<Opened>(), 0};
      result.file->fd = openLineFile(path);
      int fd = result.file->fd;
      if (from > 0) {
        result.at = from - 1 <= sizeOf(fd) ? from - 1 : 0;
      } else if (tailLines >= 0) {
        result.at = tailOf(fd, tailLines, filter);
      }
      return result;
    });
    file = kj::mv(begun.file);
    at = begun.at;
  }

  // Returns false if there is nothing more at present.
  kj::Promise<bool> sendPart() {
    auto part = co_await inPool(
        [file = kj::atomicAddRef(*file), at = at]() { return partAt(file->fd, at, kPart); });
    if (part.size() == 0) co_return false;
    auto lines = endOfLines(part);
    if (lines == kPart && part.back() != '\n') {  // longer than the limit of a line
      co_await send(part, at + part.size() + 1, true);
      at += part.size();
      rest = nullptr;
      co_return true;
    }
    rest = kj::heapArray(part.slice(lines, part.size()));
    if (lines == 0) co_return false;
    co_await send(part.slice(0, lines), at + lines + 1, false);
    at += lines;
    co_return true;
  }

  kj::Promise<void> sendRest() {
    if (rest.size() == 0) return kj::READY_NOW;
    return send(rest, at + rest.size() + 1, true);
  }

  kj::Promise<void> send(kj::ArrayPtr<const char> lines, uint64_t next, bool endLine) {
    if (what.filter.keepsAll()) return write(lines, next, endLine);
    kj::Vector<char> kept;
    for (auto line : Lines(lines)) {
      if (!what.filter.keeps(line)) continue;
      kept.addAll(line);
      kept.add('\n');
    }
    return write(kept, next, false);
  }

  kj::Promise<void> write(kj::ArrayPtr<const char> lines, uint64_t next, bool endLine) {
    auto request = sink.writeRequest();
    auto bytes = request.initBytes(lines.size() + (endLine ? 1 : 0));
    memcpy(bytes.begin(), lines.begin(), lines.size());
    if (endLine) bytes[lines.size()] = '\n';
    request.setNext(next);
    return request.send();
  }

  // Continues with the new file if there is one.
  kj::Promise<bool> rotated() {
    bool other = co_await inPool([file = kj::atomicAddRef(*file), path = kj::str(path)]() {
      return !isAt(path, file->fd) && access(path.cStr(), F_OK) == 0;
    });
    if (!other) co_return false;
    while (co_await sendPart()) {  // written to the old file after its end was reached
    }
    co_await sendRest();
    rest = nullptr;
    what.from = 0;
    what.tailLines = -1;
    co_await begin();
    co_return true;
  }

  // Watches the folder: a new file of this name, and every change of the folder's files.
  void watch() {
    int fd;
    KJ_SYSCALL(fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    changes = kj::AutoCloseFd(fd);
    size_t slash = path.findLast('/').orDefault(0);
    auto folder = kj::str(path.slice(0, slash), "/");
    // If the folder is missing, opening the file reports the error.
    inotify_add_watch(fd, folder.cStr(), IN_MODIFY | IN_CREATE | IN_MOVED_TO);
    observer = kj::heap<kj::UnixEventPort::FdObserver>(source.port, fd,
                                                       kj::UnixEventPort::FdObserver::OBSERVE_READ);
  }
  kj::Promise<void> somethingHappened() {
    auto& o = *KJ_ASSERT_NONNULL(observer);
    char events[4096];
    bool any = false;
    while (read(changes, events, sizeof events) > 0) any = true;
    if (any) co_return;  // a change between the last read of the file and now
    co_await o.whenBecomesReadable();
    while (read(changes, events, sizeof events) > 0) {
    }
  }
};

}  // namespace

bool LineFilter::keeps(kj::ArrayPtr<const char> line) {
  KJ_IF_MAYBE (wanted, since) {
    size_t end = 0;
    while (end < line.size() && line[end] != ' ') ++end;
    KJ_IF_MAYBE (time, parseTimestamp(line.slice(0, end))) {
      if (*time < *wanted) return false;
      since = nullptr;
    } else {
      return false;
    }
  }
  return containsText(line, contains);
}

kj::Promise<void> readLineFile(LineFileSource source, kj::String path, LineFile what,
                               rpc::LogSink::Client sink) {
  auto reader = kj::heap<LineFileReader>(source, kj::mv(path), kj::mv(what), kj::mv(sink));
  auto running = reader->run();
  return running.attach(kj::mv(reader));
}

}  // namespace talos::machined
