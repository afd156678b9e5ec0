#include "machined/api/kmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/url-secrets.h"
#include "machined/logs/log-since.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kFacilities[] = {
    "kern"_kj,   "user"_kj,   "mail"_kj,   "daemon"_kj, "auth"_kj,     "syslog"_kj,
    "lpr"_kj,    "news"_kj,   "uucp"_kj,   "cron"_kj,   "authpriv"_kj, "ftp"_kj,
    "ntp"_kj,    "audit"_kj,  "alert"_kj,  "clock"_kj,  "local0"_kj,   "local1"_kj,
    "local2"_kj, "local3"_kj, "local4"_kj, "local5"_kj, "local6"_kj,   "local7"_kj};
constexpr kj::StringPtr kLevels[] = {"emerg"_kj,   "alert"_kj,  "crit"_kj, "err"_kj,
                                     "warning"_kj, "notice"_kj, "info"_kj, "debug"_kj};

constexpr size_t kRecordLimit = 16u << 10;  // the kernel's limit is 8 KiB
constexpr size_t kBatch = 32u << 10;

// Returns a decimal number up to `end`; nullptr if the text is not a number or does not fit.
kj::Maybe<uint64_t> number(kj::ArrayPtr<const char> text) {
  if (text.size() == 0) return nullptr;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(c - '0'), &value)) {
      return nullptr;
    }
  }
  return value;
}

size_t find(kj::ArrayPtr<const char> text, char wanted) {
  size_t i = 0;
  while (i < text.size() && text[i] != wanted) ++i;
  return i;
}

kj::Maybe<uint64_t> nextNumber(kj::ArrayPtr<const char>& prefix) {
  size_t comma = find(prefix, ',');
  auto value = number(prefix.slice(0, comma));
  prefix = prefix.slice(kj::min(comma + 1, prefix.size()), prefix.size());
  return value;
}

// Formats RFC 3339 in UTC with nine digits, so that lines align.
kj::String formatTime(kj::Date date) {
  int64_t nanoseconds = (date - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  int64_t part = nanoseconds % 1'000'000'000;
  if (part < 0) part += 1'000'000'000;
  time_t seconds = (nanoseconds - part) / 1'000'000'000;
  struct tm parts;
  gmtime_r(&seconds, &parts);
  char text[40];
  size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text + length, sizeof text - length, ".%09lldZ", static_cast<long long>(part));
  return kj::str(text);
}

// The kernel's clock starts at 0; a number beyond a century is a damaged record, not a time.
kj::Date timeOf(const KmsgRecord& record, kj::Date boot) {
  auto since = static_cast<int64_t>(kj::min(record.microseconds, uint64_t{3'200'000'000'000'000}));
  return boot + since * kj::MICROSECONDS;
}

class DeviceSource final : public KmsgSource {
 public:
  DeviceSource(kj::UnixEventPort& port, kj::AutoCloseFd opened)
      : fd(kj::mv(opened)), observer(port, fd, kj::UnixEventPort::FdObserver::OBSERVE_READ) {}

  Read read(kj::ArrayPtr<char> buffer) override {
    for (;;) {
      ssize_t n = ::read(fd, buffer.begin(), buffer.size());
      if (n >= 0) return {.size = static_cast<size_t>(n)};
      if (errno != EINTR) return {.error = errno};
    }
  }
  kj::Promise<void> whenReadable() override { return observer.whenBecomesReadable(); }
  void rewind() override { KJ_SYSCALL(lseek(fd, 0, SEEK_SET)); }
  void skipToEnd() override { KJ_SYSCALL(lseek(fd, 0, SEEK_END)); }

 private:
  kj::AutoCloseFd fd;
  kj::UnixEventPort::FdObserver observer;
};

// Turns the source's results into steps; knows the next sequence number.
class Reader {
 public:
  Reader(kj::Own<KmsgSource> opened, const KmsgOptions& options)
      : source(kj::mv(opened)),
        boot(options.boot),
        contains(options.contains),
        sinceMicroseconds(options.sinceMicroseconds),
        format(options.format),
        expected(options.from),
        known(options.from > 0 && !options.onlyNew) {
    if (options.onlyNew) source->skipToEnd();
  }

  struct Step {
    kj::Maybe<kj::String> line = nullptr;
    uint64_t next = 0;    // sequence number after the line
    uint64_t missed = 0;  // records before the line
    bool end = false;     // nothing more for now
  };

  // Makes one read.
  Step step() {
    auto result = source->read(buffer);
    if (result.error == EPIPE) return {};  // overwritten: the next sequence number shows how many
    if (result.error == EAGAIN || (result.error == 0 && result.size == 0)) {
      if (known && behind < expected) {  // `from` is of an earlier boot
        known = false;
        source->rewind();
        return {};
      }
      return {.end = true};
    }
    if (result.error != 0) {
      fail(ErrorKind::kUnavailable, kj::str("/dev/kmsg: ", strerror(result.error)));
    }
    KJ_IF_MAYBE (record, parseKmsg(kj::arrayPtr(buffer, result.size))) {
      behind = record->sequence + 1;
      if (known && record->sequence < expected) return {};  // before `from`
      uint64_t missed = known ? record->sequence - expected : 0;
      known = true;
      expected = behind;
      Step step{.next = behind, .missed = missed};
      if (record->microseconds >= sinceMicroseconds) {
        auto line = format(*record, boot);
        if (containsText(withoutLastBreaks(line), contains)) step.line = kj::mv(line);
      }
      return step;
    }
    return {};
  }

  kj::Promise<void> whenReadable() { return source->whenReadable(); }

 private:
  kj::Own<KmsgSource> source;
  kj::Date boot;
  kj::StringPtr contains;
  uint64_t sinceMicroseconds;
  kj::String (*format)(const KmsgRecord& record, kj::Date boot);
  uint64_t expected;    // the next sequence number,
  bool known;           // if it is known
  uint64_t behind = 0;  // number of the newest record read, + 1
  char buffer[kRecordLimit];
};

kj::Promise<void> sendLines(rpc::LogSink::Client& sink, kj::ArrayPtr<const char> lines,
                            uint64_t next) {
  auto request = sink.writeRequest();
  request.setBytes(lines.asBytes());
  request.setNext(next);
  return request.send();
}

kj::Promise<void> sendMissed(rpc::LogSink::Client& sink, uint64_t count) {
  auto request = sink.missedRequest();
  request.setBytes(count);
  return request.send();
}

}  // namespace

kj::Maybe<KmsgRecord> parseKmsg(kj::ArrayPtr<const char> record) {
  size_t semicolon = find(record, ';');
  if (semicolon == record.size()) return nullptr;
  auto prefix = record.slice(0, semicolon);
  auto priority = nextNumber(prefix);
  auto sequence = nextNumber(prefix);
  auto microseconds = nextNumber(prefix);
  auto rest = record.slice(semicolon + 1, record.size());
  KJ_IF_MAYBE (p, priority) {
    KJ_IF_MAYBE (s, sequence) {
      KJ_IF_MAYBE (m, microseconds) {
        return KmsgRecord{.facility = static_cast<unsigned>(kj::min(*p >> 3, uint64_t{UINT_MAX})),
                          .level = static_cast<unsigned>(*p & 7),
                          .sequence = *s,
                          .microseconds = *m,
                          .message = rest.slice(0, find(rest, '\n'))};
      }
    }
  }
  return nullptr;
}

kj::String formatKmsg(const KmsgRecord& record, kj::Date boot) {
  auto facility = record.facility < kj::size(kFacilities) ? kj::str(kFacilities[record.facility])
                                                          : kj::str(record.facility);
  auto level = kLevels[record.level & 7];
  auto blanks = kj::repeat(' ', 7 - level.size());
  return kj::str(facility, ": ", blanks, level, ": [", formatTime(timeOf(record, boot)),
                 "]: ", withoutArgumentSecrets(record.message), '\n');
}

kj::String feedKmsg(const KmsgRecord& record, kj::Date boot) {
  return kj::str(record.facility, ',', record.level, ',', record.sequence, ',', record.microseconds,
                 ',', (timeOf(record, boot) - kj::UNIX_EPOCH) / kj::NANOSECONDS, ';',
                 withoutArgumentSecrets(record.message), '\n');
}

kj::Own<KmsgSource> openKmsg(kj::UnixEventPort& port, kj::StringPtr path) {
  int fd = open(path.cStr(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail(ErrorKind::kUnavailable, kj::str(path, ": ", strerror(errno)));
  return kj::heap<DeviceSource>(port, kj::AutoCloseFd(fd));
}

kj::Promise<void> readKmsg(kj::Own<KmsgSource> source, KmsgOptions options,
                           rpc::LogSink::Client sink) {
  constexpr unsigned kStepsPerTurn = 256;  // then other work of the loop runs
  auto reader = kj::heap<Reader>(kj::mv(source), options);
  kj::Vector<char> lines;
  uint64_t next = 0;
  for (unsigned steps = 1;; ++steps) {
    if (steps % kStepsPerTurn == 0) co_await kj::evalLater([] {});
    auto step = reader->step();
    if (lines.size() > 0 && (step.end || step.missed > 0 || lines.size() >= kBatch)) {
      co_await sendLines(sink, lines, next);
      lines.clear();
      if (step.end) continue;  // new records may have arrived meanwhile
    }
    if (step.missed > 0) co_await sendMissed(sink, step.missed);
    KJ_IF_MAYBE (line, step.line) {
      lines.addAll(*line);
      next = step.next;
    }
    if (!step.end) continue;
    if (!options.follow) co_return;
    // Runs in the same turn as the read that found nothing: the observer is edge-triggered.
    co_await reader->whenReadable();
  }
}

kj::Date kernelEpoch() {
  struct timespec real, monotonic;
  KJ_SYSCALL(clock_gettime(CLOCK_REALTIME, &real));
  KJ_SYSCALL(clock_gettime(CLOCK_MONOTONIC, &monotonic));
  return kj::UNIX_EPOCH + (real.tv_sec - monotonic.tv_sec) * kj::SECONDS +
         (real.tv_nsec - monotonic.tv_nsec) * kj::NANOSECONDS;
}

kj::Promise<void> serveKernelLog(kj::UnixEventPort& port, rpc::Logs::KernelParams::Reader params) {
  auto contains = kj::str(params.getContains());
  KmsgOptions options{.follow = params.getFollow(),
                      .onlyNew = params.getOnlyNew(),
                      .from = params.getFromSequence(),
                      .boot = kernelEpoch(),
                      .contains = contains};
  // A reader with a position continues: the start time applied to its first call.
  KJ_IF_MAYBE (time, momentOf(params.getSince())) {
    if (options.from == 0) {
      options.sinceMicroseconds =
          uint64_t((*time - kj::origin<kj::TimePoint>()) / kj::MICROSECONDS);
    }
  }
  return readKmsg(openKmsg(port), options, params.getSink()).attach(kj::mv(contains));
}

}  // namespace talos::machined
