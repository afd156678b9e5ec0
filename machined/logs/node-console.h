// The messages of the brain: each line goes to the kernel log (and so to the console) and to the
// log ring `machined`. In a container, whose kernel log is the host's, each line goes to descriptor
// 1 instead, with its time, which the kernel would have added.
//
// Lines that come before the kernel log is open are written to it later; after a crash all lines
// are in both. A write to the kernel log blocks at most for the console's speed, and a line that
// the kernel refuses is in the ring all the same. Process 1 made descriptor 1 so that a write to it
// never blocks; a line that does not fit, because there is no reader, is only in the ring.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "machined/logs/log-store.h"

namespace talos::machined {

// The severity: an alarm is on the console even if the kernel's command line has "quiet".
enum class Tone { kInfo, kAlarm };

// Returns one record of the kernel log: prefix, text and newline, at most 976 bytes (a longer one
// ends in "..."). The text is treated as foreign (common/text/foreign-text.h), so that output of a
// service or the network cannot draw on the console.
kj::String kernelLogRecord(kj::StringPtr text, Tone tone = Tone::kInfo);

// Returns the line for a console that is not a kernel's: with the time, without the level.
kj::String consoleLine(kj::StringPtr text, kj::Date now);

// The sinks that the lines go to.
enum class ConsoleKind { kKernelLog, kOutput };

class Console {
 public:
  Console(Logs& logs, const kj::Clock& clock, ConsoleKind kind = ConsoleKind::kKernelLog)
      : logs(logs), clock(clock), kind(kind) {}

  void open();  // opens /dev/kmsg, or descriptor 1
  void openKernelLog(kj::StringPtr path);
  // Prints a text without newline; a text of several lines is as many records.
  void say(kj::StringPtr text, Tone tone = Tone::kInfo);
  // Prints lines of a service's log to the kernel log only: the service's ring has them already.
  void show(kj::StringPtr id, kj::ArrayPtr<const char> lines);

 private:
  Logs& logs;
  const kj::Clock& clock;
  ConsoleKind kind;
  kj::AutoCloseFd opened;
  kj::Vector<kj::String> waiting;

  void use(int fd);
  void put(kj::StringPtr line, Tone tone);
  void write(kj::StringPtr record);
};

}  // namespace talos::machined
