// Record of a crash, as a signal handler writes it (crash-handler.h): lines of a key and a value,
// and the program's memory map at the end.
//
//   signal 11
//   program apid
//   build-id 0a16c157…
//   pid 812
//   address 0x0             of the access that failed; instead, for a signal that was sent:
//   sender 1                the process that sent it
//   register pc=0x40120f
//   frame 0x40120f          innermost first; each is an address of the instruction itself
//   wait 1500 no answer     a wait under way (common/base/waits.h), and since how many ms
//   end                     of a program that continues: the record is complete
//   map                     then lines of /proc/<pid>/maps
//
// The record comes from a program that has failed, and may be an attacker's: it is parsed
// defensively, and bounded. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::crash {

constexpr size_t kMostFramesRead = 128;
constexpr size_t kMostMapLines = 256;
constexpr size_t kMostWaits = 256;
constexpr size_t kLongestValue = 256;

struct WaitRecord {
  uint64_t ms = 0;
  kj::String text;
};

struct CrashRecord {
  int signal = 0;
  kj::String program, buildId;
  uint32_t pid = 0;
  kj::Maybe<kj::String> address;
  uint32_t sender = 0;
  kj::Vector<kj::String> registers, frames, map;
  kj::Vector<WaitRecord> waits;
  bool whole = false;  // complete; only for a program that continues
  kj::String problem;  // why a part is missing; empty if nothing is
  // Core (core-writer.h), if one was requested; nullptr otherwise. It is never parsed.
  kj::Array<kj::byte> core;
};

// Returns nullptr if the text does not begin as a record does. Ignores unknown keys; values are
// fields of foreign text (common/text/foreign-text.h).
kj::Maybe<CrashRecord> parseCrashRecord(kj::ArrayPtr<const char> text);

// Returns SIGSEGV, or SIG42 for a signal without a name.
kj::String signalName(int number);

}  // namespace talos::crash
