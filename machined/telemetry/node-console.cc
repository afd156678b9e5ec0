#include "machined/telemetry/node-console.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/lines.h"
#include "common/base/url-secrets.h"

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

}  // namespace

kj::String kernelLogRecord(kj::StringPtr text, Tone tone) {
  auto record = kj::str(tone == Tone::kAlarm ? "<3>" : "<6>", kPrefix, text, "\n");
  if (record.size() > kMostRecord) {
    record = kj::str(record.slice(0, kMostRecord - 4), "...\n");
  }
  for (size_t i = 0; i + 1 < record.size(); i++) {
    auto c = static_cast<unsigned char>(record[i]);
    if ((c < 0x20 && c != '\t') || c == 0x7f) record[i] = '?';
  }
  return record;
}

void Console::openKernelLog(kj::StringPtr path) {
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), O_WRONLY | O_CLOEXEC | O_NOCTTY), path);
  kernelLog = kj::AutoCloseFd(fd);
  auto early = kj::mv(waiting);
  waiting = {};
  for (auto& record : early) toKernel(kj::mv(record));
}

void Console::say(kj::StringPtr text, Tone tone) {
  for (auto written : Lines(text)) {
    auto line = withoutUrlPasswords(written);  // readers of logs, and whoever sees the screen
    auto stamped = kj::str(timeOf(clock.now()), " ", line, "\n");
    logs.append("machined", stamped.asArray());
    toKernel(kernelLogRecord(line, tone));
  }
}

void Console::show(kj::StringPtr id, kj::ArrayPtr<const char> lines) {
  for (auto line : Lines(lines)) toKernel(kernelLogRecord(kj::str(id, ": ", line)));
}

void Console::toKernel(kj::String record) {
  if (kernelLog.get() < 0) {
    waiting.add(kj::mv(record));
    return;
  }
  ssize_t written = write(kernelLog.get(), record.begin(), record.size());
  (void)written;  // the ring has it
}

}  // namespace talos::machined
