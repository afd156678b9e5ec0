// One ring of log lines in a memfd, and the bytes behind its last whole line.
//
// The file has 2 KiB of header, the bytes, up to 1 MiB, and behind it the times of lines, 128 KiB.
// Position p of the log is at p % capacity.
// Three positions are in the header:
//   lines    bytes before it are whole lines and may be read
//   end      bytes between `lines` and it are the beginning of a line
//   intent   bytes between `end` and it may be being overwritten
// Always lines <= end <= intent.
// `intent` moves before bytes are written and `end` after, so after a crash at any line what is
// readable is what was written: the oldest readable byte is at intent - capacity. Only bytes that
// were read from a pipe and not yet counted into `end` (between two instructions) can be lost.
//
// A mark says when the lines from a position on came: one for each tenth of a second that has
// lines, the newest 8191, in a ring of their own. Their clock is the machine's since its boot, that
// nobody sets. A mark is whole before it counts.
//
// Pages are touched only as the log grows. The file's size is sealed, so nobody's truncation can
// turn an access into SIGBUS.
#pragma once

#include <kj/array.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/memory.h>
#include <kj/time.h>

namespace talos::machined {

constexpr size_t kLogHeaderSize = 2048;
constexpr size_t kLogCapacity = (1u << 20) - kLogHeaderSize;
constexpr size_t kLogMarks = 8192;
constexpr size_t kLogFileSize = (1u << 20) + kLogMarks * 16;
constexpr auto kLogMarkEvery = 100 * kj::MILLISECONDS;
constexpr size_t kLongestLine = 8192;  // then it is cut, with a newline

class LogRing {
 public:
  // A new, empty ring.
  explicit LogRing(const kj::MonotonicClock& clock = kj::systemCoarseMonotonicClock());
  // Goes on with a predecessor's file. None when it is not a ring (wrong size, magic or positions).
  static kj::Maybe<kj::Own<LogRing>> recover(
      kj::AutoCloseFd fd, const kj::MonotonicClock& clock = kj::systemCoarseMonotonicClock());
  ~LogRing() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(LogRing);

  int file() const { return fd; }

  // Called with each run of whole lines as it becomes readable. Valid during the call.
  using Lines = kj::FunctionParam<void(kj::ArrayPtr<const char>)>;

  // Whole lines: a line that others had begun is ended first, a missing newline is added.
  void append(kj::ArrayPtr<const char> bytes, Lines lines);
  // Reads at most `limit` bytes from a non-blocking descriptor straight into the ring. Returns how
  // many; 0 at its end, none when there is nothing now.
  kj::Maybe<size_t> readFrom(int source, size_t limit, Lines lines);

  // Positions. Reading can begin at oldest(), which is the beginning of a line, and ends at
  // newest().
  uint64_t oldest() const;
  uint64_t newest() const;
  // The beginning of the line that is `count` lines before the end.
  uint64_t tail(unsigned count) const;
  // The beginning of the lines that came at this time or later, and up to kLogMarkEvery earlier.
  // Where so many lines came since that the time of the oldest is not known, these are among them.
  uint64_t since(kj::TimePoint time) const;
  // `position`, if a line begins there, else the beginning of the next line. Between oldest and
  // newest.
  uint64_t lineAt(uint64_t position) const;
  // Where a chunk of whole lines that begins at `from` and has at most about `limit` bytes ends.
  // Above kLongestLine the limit is kept.
  uint64_t chunkEnd(uint64_t from, size_t limit, uint64_t until) const;
  void copy(uint64_t from, kj::ArrayPtr<char> to) const;

 private:
  struct Header;
  struct Mark;
  LogRing(kj::AutoCloseFd fd, const kj::MonotonicClock& clock);

  kj::AutoCloseFd fd;
  const kj::MonotonicClock& clock;
  kj::byte* map = nullptr;

  Header& header() const;
  char& at(uint64_t position) const;
  kj::Maybe<uint64_t> findNewline(uint64_t from, uint64_t until) const;
  Mark& mark(uint64_t number) const;
  void markTime(uint64_t position);
  void put(kj::ArrayPtr<const char> bytes);
  void reserve(size_t bytes);
  void commit(uint64_t scanFrom, Lines& lines);
  void publish(uint64_t until, Lines& lines);
};

}  // namespace talos::machined
