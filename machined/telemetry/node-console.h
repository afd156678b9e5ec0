// The messages of the brain: each line goes to the kernel log (and so to the console) and to the
// log ring `machined`.
//
// Lines that come before the kernel log is open wait for it; after a crash all lines are in both. A
// write to the kernel log blocks at most at the console's own speed, and a line that the kernel
// refuses is in the ring all the same.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include "machined/telemetry/log-store.h"

namespace talos::machined {

// How loud: an alarm is on the console even when the kernel was told to be quiet.
enum class Tone { kInfo, kAlarm };

// One record of the kernel log: prefix, text and newline, at most 976 bytes (a longer one ends in
// "..."). Control characters become '?', so that what a service or the network says cannot draw on
// the console.
kj::String kernelLogRecord(kj::StringPtr text, Tone tone = Tone::kInfo);

class Console {
 public:
  Console(Logs& logs, const kj::Clock& clock) : logs(logs), clock(clock) {}

  void openKernelLog(kj::StringPtr path = "/dev/kmsg");
  // Without newline; a text of several lines is as many records.
  void say(kj::StringPtr text, Tone tone = Tone::kInfo);
  // Lines of a service's log, to the kernel log only: they are in a ring of their own.
  void show(kj::StringPtr id, kj::ArrayPtr<const char> lines);

 private:
  Logs& logs;
  const kj::Clock& clock;
  kj::AutoCloseFd kernelLog;
  kj::Vector<kj::String> waiting;

  void toKernel(kj::String record);
};

}  // namespace talos::machined
