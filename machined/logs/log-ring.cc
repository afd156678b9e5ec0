#include "machined/logs/log-ring.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <atomic>

namespace talos::machined {
namespace {
constexpr uint64_t kMagic = 0x32676f6c736f6c61;  // "alosolg2"
}

struct LogRing::Header {
  uint64_t magic;
  std::atomic<uint64_t> lines, end, intent, marks;
};

// The lines from `position` on arrived `nanoseconds` after the clock's origin, or later.
struct LogRing::Mark {
  uint64_t position, nanoseconds;
};

namespace {
uint64_t nanosecondsOf(kj::TimePoint time) {
  return static_cast<uint64_t>(
      kj::max((time - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS, int64_t{0}));
}
}  // namespace

LogRing::LogRing(kj::AutoCloseFd file, const kj::MonotonicClock& clock)
    : fd(kj::mv(file)), clock(clock) {
  static_assert(kLogHeaderSize + kLogCapacity + kLogMarks * sizeof(Mark) == kLogFileSize);
  static_assert(sizeof(Header) <= kLogHeaderSize);
  auto p = mmap(nullptr, kLogFileSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) KJ_FAIL_SYSCALL("mmap of a log ring", errno);
  map = static_cast<kj::byte*>(p);
}

LogRing::LogRing(const kj::MonotonicClock& clock)
    : LogRing(
          [] {
            int raw;
            KJ_SYSCALL(raw = memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
            kj::AutoCloseFd fd(raw);
            KJ_SYSCALL(ftruncate(fd, kLogFileSize));
            KJ_SYSCALL(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
            return fd;
          }(),
          clock) {
  header().magic = kMagic;
}

kj::Maybe<kj::Own<LogRing>> LogRing::recover(kj::AutoCloseFd fd, const kj::MonotonicClock& clock) {
  struct stat stats;
  if (fstat(fd, &stats) != 0 || stats.st_size != kLogFileSize) return nullptr;
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK)) return nullptr;
  kj::Own<LogRing> ring(new LogRing(kj::mv(fd), clock), kj::_::HeapDisposer<LogRing>::instance);
  auto& h = ring->header();
  uint64_t lines = h.lines, end = h.end, intent = h.intent;
  if (h.magic != kMagic || lines > end || end > intent || end - lines > kLogCapacity ||
      intent - end > kLogCapacity) {
    return nullptr;
  }
  return kj::mv(ring);
}

LogRing::~LogRing() noexcept(false) {
  if (map != nullptr) munmap(map, kLogFileSize);
}

LogRing::Header& LogRing::header() const {
  return *reinterpret_cast<Header*>(map);
}
char& LogRing::at(uint64_t p) const {
  return reinterpret_cast<char*>(map)[kLogHeaderSize + p % kLogCapacity];
}

LogRing::Mark& LogRing::mark(uint64_t number) const {
  return reinterpret_cast<Mark*>(map + kLogHeaderSize + kLogCapacity)[number % kLogMarks];
}

uint64_t LogRing::newest() const {
  return header().lines;
}

uint64_t LogRing::oldest() const {
  uint64_t intent = header().intent, newest = header().lines;
  if (intent <= kLogCapacity) return 0;
  auto floor = intent - kLogCapacity;
  if (floor >= newest) return newest;
  // The line that contains `floor` may have lost its beginning, which cannot be detected.
  KJ_IF_MAYBE (newline, findNewline(floor, newest)) {
    return *newline + 1;
  }
  return newest;
}

// The functions below work on pieces that do not wrap.
kj::Maybe<uint64_t> LogRing::findNewline(uint64_t from, uint64_t until) const {
  while (from < until) {
    auto piece = kj::min(until - from, kLogCapacity - from % kLogCapacity);
    auto start = &at(from);
    if (auto found = static_cast<char*>(memchr(start, '\n', piece))) return from + (found - start);
    from += piece;
  }
  return nullptr;
}

void LogRing::copy(uint64_t from, kj::ArrayPtr<char> to) const {
  size_t first = kj::min(to.size(), kLogCapacity - from % kLogCapacity);
  memcpy(to.begin(), &at(from), first);
  if (first < to.size()) memcpy(to.begin() + first, &at(from + first), to.size() - first);
}

uint64_t LogRing::tail(unsigned count) const {
  auto floor = oldest(), position = newest();
  while (position > floor && count > 0) {
    auto start = position - 1;  // its newline
    while (start > floor && at(start - 1) != '\n') --start;
    position = start;
    --count;
  }
  return position;
}

uint64_t LogRing::since(kj::TimePoint time) const {
  auto wanted = nanosecondsOf(time);
  uint64_t count = header().marks;
  // The slot of the oldest mark may be being overwritten.
  uint64_t first = count < kLogMarks ? 0 : count - kLogMarks + 1, last = count;
  auto oldestMark = first;
  while (first < last) {  // the first mark that is later
    auto middle = first + (last - first) / 2;
    if (mark(middle).nanoseconds > wanted) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  if (first == oldestMark) return oldest();
  auto& before = mark(first - 1);
  if (wanted - before.nanoseconds < uint64_t(kLogMarkEvery / kj::NANOSECONDS)) {
    return lineAt(before.position);
  }
  return first == count ? newest() : lineAt(mark(first).position);
}

uint64_t LogRing::lineAt(uint64_t position) const {
  auto floor = oldest(), top = newest();
  if (position <= floor) return floor;
  if (position >= top) return top;
  KJ_IF_MAYBE (newline, findNewline(position - 1, top)) {
    return *newline + 1;
  }
  return top;
}

uint64_t LogRing::chunkEnd(uint64_t from, size_t limit, uint64_t until) const {
  if (until - from <= limit) return until;
  auto end = from + limit;
  while (end > from && at(end - 1) != '\n') --end;
  if (end > from) return end;
  KJ_IF_MAYBE (newline, findNewline(from, until)) {
    return *newline + 1;
  }
  return until;
}

// --- writing
// -----------------------------------------------------------------------------------------

void LogRing::reserve(size_t bytes) {
  auto& h = header();
  uint64_t wanted = h.end + bytes;
  if (wanted > h.intent) h.intent.store(wanted, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void LogRing::put(kj::ArrayPtr<const char> bytes) {
  reserve(bytes.size());
  auto& h = header();
  uint64_t end = h.end;
  size_t first = kj::min(bytes.size(), kLogCapacity - end % kLogCapacity);
  memcpy(&at(end), bytes.begin(), first);
  if (first < bytes.size()) memcpy(&at(end + first), bytes.begin() + first, bytes.size() - first);
  h.end.store(end + bytes.size(), std::memory_order_release);
}

// Records that the lines from `position` on arrive now.
void LogRing::markTime(uint64_t position) {
  auto& h = header();
  uint64_t count = h.marks, now = nanosecondsOf(clock.now());
  if (count > 0 && now < mark(count - 1).nanoseconds + uint64_t(kLogMarkEvery / kj::NANOSECONDS)) {
    return;
  }
  mark(count) = {position, now};
  h.marks.store(count + 1, std::memory_order_release);
}

void LogRing::publish(uint64_t until, Lines& lines) {
  auto& h = header();
  uint64_t from = h.lines;
  if (until == from) return;
  markTime(from);
  h.lines.store(until, std::memory_order_release);
  size_t size = until - from, first = kLogCapacity - from % kLogCapacity;
  if (size <= first) {
    lines(kj::arrayPtr(&at(from), size));
  } else {
    auto whole = kj::heapArray<char>(size);
    copy(from, whole);
    lines(whole);
  }
}

// Makes new whole lines readable; bytes before `scanFrom` are known to have no newline.
void LogRing::commit(uint64_t scanFrom, Lines& lines) {
  auto& h = header();
  uint64_t end = h.end, whole = h.lines;
  for (auto p = end; p > scanFrom; --p) {
    if (at(p - 1) == '\n') {
      whole = p;
      break;
    }
  }
  publish(whole, lines);
  if (end - whole >= kLongestLine) {
    put("\n"_kj.asArray());
    publish(h.end, lines);
  }
}

void LogRing::append(kj::ArrayPtr<const char> bytes, Lines lines) {
  auto& h = header();
  if (h.end > h.lines) {
    put("\n"_kj.asArray());
    publish(h.end, lines);
  }
  while (bytes.size() > 0) {
    auto piece = bytes.slice(0, kj::min(bytes.size(), kLongestLine));
    uint64_t from = h.end;
    put(piece);
    bytes = bytes.slice(piece.size(), bytes.size());
    if (bytes.size() == 0 && piece.back() != '\n') put("\n"_kj.asArray());
    commit(from, lines);
  }
}

kj::Maybe<size_t> LogRing::readFrom(int source, size_t limit, Lines lines) {
  // Never more than one longest line at a time, so that a line without an end is cut at its limit.
  limit = kj::min(limit, kLongestLine - (newest() == header().end ? 0 : header().end - newest()));
  auto& h = header();
  uint64_t end = h.end, before = h.intent;
  reserve(limit);
  size_t first = kj::min(limit, kLogCapacity - end % kLogCapacity);
  iovec pieces[2] = {{&at(end), first}, {&at(end + first), limit - first}};
  ssize_t got;
  do {
    got = readv(source, pieces, first < limit ? 2 : 1);
  } while (got < 0 && errno == EINTR);
  int error = errno;
  if (got <= 0) {
    h.intent.store(before, std::memory_order_release);
    if (got == 0) return size_t{0};
    if (error == EAGAIN) return nullptr;
    KJ_FAIL_SYSCALL("read of a log pipe", error);
  }
  h.end.store(end + got, std::memory_order_release);
  h.intent.store(kj::max(before, end + got), std::memory_order_release);
  commit(end, lines);
  return static_cast<size_t>(got);
}

}  // namespace talos::machined
