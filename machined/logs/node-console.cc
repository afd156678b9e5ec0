#include "machined/logs/node-console.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/lines.h"
#include "common/base/url-secrets.h"
#include "common/text/foreign-text.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kPrefix = "[talos] "_kj;
constexpr size_t kMostRecord = 976;

kj::String timeOf(kj::Date date) {
  time_t seconds = (date - kj::UNIX_EPOCH) / kj::SECONDS;
  struct tm parts;
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", &parts);
  return kj::str(text);
}

kj::String oneLine(kj::StringPtr text) {
  auto line = fieldText(text);
  if (line.size() + 1 > kMostRecord) line = kj::str(fieldText(line, kMostRecord - 4), "...");
  return kj::str(line, "\n");
}

}  // namespace

kj::String kernelLogRecord(kj::StringPtr text, Tone tone) {
  return oneLine(kj::str(tone == Tone::kAlarm ? "<3>" : "<6>", kPrefix, text));
}

kj::String consoleLine(kj::StringPtr text, kj::Date now) {
  return oneLine(kj::str(kPrefix, timeOf(now), " ", text));
}

void Console::open() {
  if (kind == ConsoleKind::kKernelLog) return openKernelLog("/dev/kmsg");
  int fd;
  KJ_SYSCALL(fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  use(fd);
}

void Console::openKernelLog(kj::StringPtr path) {
  int fd;
  KJ_SYSCALL(fd = ::open(path.cStr(), O_WRONLY | O_CLOEXEC | O_NOCTTY), path);
  use(fd);
}

void Console::use(int fd) {
  opened = kj::AutoCloseFd(fd);
  auto early = kj::mv(waiting);
  waiting = {};
  for (auto& record : early) write(record);
}

void Console::say(kj::StringPtr text, Tone tone) {
  for (auto written : Lines(text)) {
    auto line = withoutUrlPasswords(written);  // not for readers of logs or the screen
    auto stamped = kj::str(timeOf(clock.now()), " ", line, "\n");
    logs.append("machined", stamped.asArray());
    put(line, tone);
  }
}

void Console::show(kj::StringPtr id, kj::ArrayPtr<const char> lines) {
  for (auto line : Lines(lines)) put(kj::str(id, ": ", line), Tone::kInfo);
}

void Console::put(kj::StringPtr line, Tone tone) {
  auto record = kind == ConsoleKind::kKernelLog ? kernelLogRecord(line, tone)
                                                : consoleLine(line, clock.now());
  if (opened.get() >= 0) return write(record);
  waiting.add(kj::mv(record));
}

void Console::write(kj::StringPtr record) {
  ssize_t written = ::write(opened.get(), record.begin(), record.size());
  (void)written;  // the ring has it
}

}  // namespace talos::machined
