// One ring of log lines in a memfd, and the bytes after its last whole line.
//
// The file has 2 KiB of header, the bytes, up to 1 MiB, and then the times of lines, 128 KiB.
// Position p of the log is at p % capacity.
// Three positions are in the header:
//   lines    bytes before it are whole lines and may be read
//   end      bytes between `lines` and it are the beginning of a line
//   intent   bytes between `end` and it may be being overwritten
// Always lines <= end <= intent.
// `intent` moves before bytes are written and `end` after, so after a crash at any line all
// readable bytes are as written: the oldest readable byte is at intent - capacity. Only bytes that
// were read from a pipe and not yet counted into `end` (between two instructions) can be lost.
//
// A mark has the time at which the lines from a position on arrived: one for each tenth of a second
// that has lines, the newest 8191, in a separate ring. Their clock is the machine's time since its
// boot, which is never set. A mark is whole before it counts.
//
// Pages are touched only as the log grows. The file's size is sealed, so no process can truncate it
// and turn an access into SIGBUS.
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
constexpr size_t kLongestLine = 8192;  // longer lines are cut, with a newline

class LogRing {
 public:
  // Makes a new, empty ring.
  explicit LogRing(const kj::MonotonicClock& clock = kj::systemCoarseMonotonicClock());
  // Continues a predecessor's file. Returns nullptr if it is not a ring (wrong size, magic or
  // positions).
  static kj::Maybe<kj::Own<LogRing>> recover(
      kj::AutoCloseFd fd, const kj::MonotonicClock& clock = kj::systemCoarseMonotonicClock());
  ~LogRing() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(LogRing);

  int file() const { return fd; }

  // Called with each run of whole lines as it becomes readable. Valid during the call.
  using Lines = kj::FunctionParam<void(kj::ArrayPtr<const char>)>;

  // Appends whole lines: ends a line that another writer had begun first, and adds a missing
  // newline.
  void append(kj::ArrayPtr<const char> bytes, Lines lines);
  // Reads at most `limit` bytes from a non-blocking descriptor straight into the ring. Returns the
  // number of bytes; 0 at the end, nullptr if nothing can be read now.
  kj::Maybe<size_t> readFrom(int source, size_t limit, Lines lines);

  // Positions. Reading can begin at oldest(), which is the beginning of a line, and ends at
  // newest().
  uint64_t oldest() const;
  uint64_t newest() const;
  // Returns the beginning of the line that is `count` lines before the end.
  uint64_t tail(unsigned count) const;
  // Returns the beginning of the lines that arrived at this time or later, and up to kLogMarkEvery
  // earlier. If so many lines have arrived since that the time of the oldest is not known, these
  // are included.
  uint64_t since(kj::TimePoint time) const;
  // Returns `position` if a line begins there, else the beginning of the next line. Between oldest
  // and newest.
  uint64_t lineAt(uint64_t position) const;
  // Returns the end of a chunk of whole lines that begins at `from` and has at most about `limit`
  // bytes. Above kLongestLine the limit is exact.
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
