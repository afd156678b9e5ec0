// Values from the text of /proc and cgroup files. Pure: text in, values out.
//
// The kernel writes these texts, but any process chooses its command line and name; a text that is
// not understood gives an absent value, never a wrong one.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

// Take the next line off a text (false at its end), the next field off a line (empty at its end).
bool nextLine(kj::ArrayPtr<const char>& text, kj::ArrayPtr<const char>& line);
kj::ArrayPtr<const char> nextField(kj::ArrayPtr<const char>& line);

// One line of /proc/meminfo: "MemTotal:  16316412 kB".
struct MemoryLine {
  kj::String name;
  uint64_t value;
  kj::String unit;  // "kB", or empty for a count
};
kj::Vector<MemoryLine> parseMeminfo(kj::StringPtr text);

// One line of /proc/mounts, with the octal escapes of blanks and backslashes decoded.
struct MountPoint {
  kj::String filesystem;
  kj::String path;
  kj::String type;
};
kj::Vector<MountPoint> parseMounts(kj::StringPtr text);

// The fields of /proc/<pid>/stat. The command is in parentheses and may contain blanks, parentheses
// and line ends.
struct ProcessStat {
  int pid = 0, ppid = 0;
  char state = '?';
  uint32_t threads = 0;
  uint64_t cpuTicks = 0;  // user + system
  uint64_t virtualBytes = 0;
  uint64_t residentPages = 0;
  uint64_t startTicks = 0;  // since the boot
  kj::String command;
};
kj::Maybe<ProcessStat> parseStat(kj::StringPtr text);

// Parses /proc/<pid>/cmdline: the arguments, joined by blanks. Empty for a kernel thread.
kj::String parseArguments(kj::ArrayPtr<const char> cmdline);

// Returns the value of a line "<key> <number>" of a flat-keyed file (cpu.stat, memory.stat).
kj::Maybe<uint64_t> flatKey(kj::StringPtr text, kj::StringPtr key);
// Parses a text that is one number (memory.current).
kj::Maybe<uint64_t> parseNumber(kj::ArrayPtr<const char> text);

}  // namespace talos::machined
