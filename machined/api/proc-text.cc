#include "machined/api/proc-text.h"

#include <kj/debug.h>

namespace talos::machined {
namespace {

bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\0';
}

bool equal(kj::ArrayPtr<const char> field, kj::StringPtr text) {
  return field == text.asArray();
}

// Decodes "\040" and the like, as /proc/mounts writes blanks.
kj::String unescape(kj::ArrayPtr<const char> field) {
  kj::Vector<char> out(field.size());
  auto octal = [&](size_t i) { return i < field.size() && field[i] >= '0' && field[i] <= '7'; };
  for (size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out.add(static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 +
                                field[i + 3] - '0'));
      i += 3;
    } else {
      out.add(field[i]);
    }
  }
  return kj::heapString(out.begin(), out.size());
}

}  // namespace

bool nextLine(kj::ArrayPtr<const char>& text, kj::ArrayPtr<const char>& line) {
  if (text.size() == 0) return false;
  size_t end = 0;
  while (end < text.size() && text[end] != '\n') ++end;
  line = text.slice(0, end);
  text = text.slice(kj::min(end + 1, text.size()), text.size());
  return true;
}

kj::ArrayPtr<const char> nextField(kj::ArrayPtr<const char>& line) {
  size_t begin = 0;
  while (begin < line.size() && isBlank(line[begin])) ++begin;
  size_t end = begin;
  while (end < line.size() && !isBlank(line[end])) ++end;
  auto field = line.slice(begin, end);
  line = line.slice(end, line.size());
  return field;
}

kj::Maybe<uint64_t> parseNumber(kj::ArrayPtr<const char> text) {
  auto digits = nextField(text);
  if (digits.size() == 0 || nextField(text).size() > 0) return nullptr;
  uint64_t value = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return nullptr;
    if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<uint64_t>(c - '0'), &value)) {
      return nullptr;
    }
  }
  return value;
}

kj::Vector<MemoryLine> parseMeminfo(kj::StringPtr text) {
  kj::Vector<MemoryLine> result;
  kj::ArrayPtr<const char> rest = text, line;
  while (nextLine(rest, line)) {
    auto name = nextField(line);
    if (name.size() < 2 || name.back() != ':') continue;
    KJ_IF_MAYBE (value, parseNumber(nextField(line))) {
      result.add(MemoryLine{kj::heapString(name.slice(0, name.size() - 1)), *value,
                            kj::heapString(nextField(line))});
    }
  }
  return result;
}

kj::Vector<MountPoint> parseMounts(kj::StringPtr text) {
  kj::Vector<MountPoint> result;
  kj::ArrayPtr<const char> rest = text, line;
  while (nextLine(rest, line)) {
    auto filesystem = nextField(line);
    auto path = nextField(line);
    auto type = nextField(line);
    if (path.size() > 0) {
      result.add(MountPoint{unescape(filesystem), unescape(path), kj::heapString(type)});
    }
  }
  return result;
}

kj::Maybe<ProcessStat> parseStat(kj::StringPtr text) {
  KJ_IF_MAYBE (open, text.findFirst('(')) {
    KJ_IF_MAYBE (close, text.findLast(')')) {
      if (*close < *open) return nullptr;
      // Fields after the command, counted from 0: state, ppid, then by their numbers in proc(5)
      // less 3.
      kj::ArrayPtr<const char> rest = text.slice(*close + 1);
      auto state = nextField(rest);
      if (state.size() != 1) return nullptr;
      uint64_t fields[22] = {};
      for (size_t i = 1; i < kj::size(fields); ++i) {
        auto field = nextField(rest);
        if (field.size() == 0) return nullptr;
        fields[i] =
            parseNumber(field).orDefault(0);  // some may be negative, but not those that are used
      }
      ProcessStat stat;
      KJ_IF_MAYBE (pid, parseNumber(text.slice(0, *open))) {
        stat.pid = static_cast<int>(*pid);
      } else {
        return nullptr;
      }
      stat.command = kj::heapString(text.slice(*open + 1, *close));
      stat.state = state[0];
      stat.ppid = static_cast<int>(fields[1]);
      stat.cpuTicks = fields[11] + fields[12];
      stat.threads = static_cast<uint32_t>(fields[17]);
      stat.startTicks = fields[19];
      stat.virtualBytes = fields[20];
      stat.residentPages = fields[21];
      return kj::mv(stat);
    }
  }
  return nullptr;
}

kj::String parseArguments(kj::ArrayPtr<const char> cmdline) {
  while (cmdline.size() > 0 && isBlank(cmdline.back()))
    cmdline = cmdline.slice(0, cmdline.size() - 1);
  auto joined = kj::heapString(cmdline);
  for (char& c : joined) {
    if (c == '\0') c = ' ';
  }
  return joined;
}

kj::Maybe<uint64_t> flatKey(kj::StringPtr text, kj::StringPtr key) {
  kj::ArrayPtr<const char> rest = text, line;
  while (nextLine(rest, line)) {
    if (equal(nextField(line), key)) return parseNumber(line);
  }
  return nullptr;
}

}  // namespace talos::machined
