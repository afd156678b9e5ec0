#include "logd/line-format.h"

#include <stdio.h>
#include <time.h>

#include "common/base/timestamp.h"
#include "common/text/plain-text.h"
#include "common/wire/event-line.h"
#include "common/yaml/yaml-codec.h"

namespace talos::logd {
namespace {

using config::LogFormat;
using config::LogStream;

// Of syslog (RFC 5424 table 2).
enum Severity : unsigned { kErr = 3, kWarning = 4, kInfo = 6, kDebug = 7 };
constexpr unsigned kDaemonFacility = 3, kAuditFacility = 13;
constexpr kj::StringPtr kPriorities[] = {"emerg"_kj,   "alert"_kj,  "crit"_kj, "err"_kj,
                                         "warning"_kj, "notice"_kj, "info"_kj, "debug"_kj};
constexpr kj::StringPtr kFacilities[] = {
    "kern"_kj,   "user"_kj,   "mail"_kj,   "daemon"_kj, "auth"_kj,     "syslog"_kj,
    "lpr"_kj,    "news"_kj,   "uucp"_kj,   "cron"_kj,   "authpriv"_kj, "ftp"_kj,
    "ntp"_kj,    "audit"_kj,  "alert"_kj,  "clock"_kj,  "local0"_kj,   "local1"_kj,
    "local2"_kj, "local3"_kj, "local4"_kj, "local5"_kj, "local6"_kj,   "local7"_kj};

// A line as its stream means it.
struct ParsedLine {
  kj::ArrayPtr<const char> text;
  kj::Date time = kj::UNIX_EPOCH;
  unsigned severity = kInfo, facility = kDaemonFacility;
  struct Kernel {
    uint64_t sequence, microseconds;
  };
  kj::Maybe<Kernel> kernel;
  kj::Maybe<kj::String> event;  // JSON
  kj::String ownText;           // that `text` may be of
};

kj::StringPtr levelName(unsigned severity) {
  if (severity <= kErr) return "error"_kj;
  if (severity == kWarning) return "warn"_kj;
  return severity == kDebug ? "debug"_kj : "info"_kj;
}

kj::String timeText(kj::Date date, unsigned digits) {
  int64_t nanoseconds = (date - kj::UNIX_EPOCH) / kj::NANOSECONDS;
  int64_t part = nanoseconds % 1'000'000'000;
  if (part < 0) part += 1'000'000'000;
  time_t seconds = (nanoseconds - part) / 1'000'000'000;
  struct tm parts;
  gmtime_r(&seconds, &parts);
  char text[48];
  auto length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text + length, sizeof text - length, ".%09lld", static_cast<long long>(part));
  return kj::str(kj::arrayPtr(text, length + 1 + digits), "Z");
}

// --- reading

bool startsAt(kj::ArrayPtr<const char> text, size_t at, kj::StringPtr with) {
  return text.size() - at >= with.size() && text.slice(at, at + with.size()) == with.asArray();
}

// The value behind `name` (level= or "level":") among the first bytes of a line.
kj::Maybe<kj::ArrayPtr<const char>> valueOf(kj::ArrayPtr<const char> text, kj::StringPtr name) {
  constexpr size_t kLooked = 256;
  auto end = kj::min(text.size(), kLooked);
  for (size_t at = 0; at + name.size() < end; ++at) {
    if (!startsAt(text, at, name)) continue;
    if (name[0] != '"' && at > 0 && text[at - 1] != ' ') continue;
    size_t from = at + name.size(), until = from;
    if (text[from] == '"') ++from, ++until;
    while (until < end && text[until] != ' ' && text[until] != '"' && text[until] != ',') ++until;
    return text.slice(from, until);
  }
  return nullptr;
}

unsigned severityOf(kj::ArrayPtr<const char> text) {
  kj::Maybe<kj::ArrayPtr<const char>> level;
  for (auto name : {"level="_kj, "\"level\":\""_kj}) {
    if (level == nullptr) level = valueOf(text, name);
  }
  KJ_IF_MAYBE (l, level) {
    for (auto name : {"error"_kj, "err"_kj, "fatal"_kj, "panic"_kj, "dpanic"_kj}) {
      if (*l == name.asArray()) return kErr;
    }
    if (*l == "warning"_kj.asArray() || *l == "warn"_kj.asArray()) return kWarning;
    if (*l == "debug"_kj.asArray() || *l == "trace"_kj.asArray()) return kDebug;
    return kInfo;
  }
  // Kubernetes' own: "E1126 12:07:35.042123 …".
  bool klog = text.size() > 6 && text[5] == ' ';
  for (size_t i = 1; klog && i < 5; ++i) klog = text[i] >= '0' && text[i] <= '9';
  if (klog) {
    if (text[0] == 'E' || text[0] == 'F') return kErr;
    if (text[0] == 'W') return kWarning;
  }
  return kInfo;
}

uint64_t takeNumber(kj::ArrayPtr<const char>& text) {
  uint64_t value = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
    value = value * 10 + (text[i] - '0');
  text = text.slice(kj::min(i + 1, text.size()), text.size());
  return value;
}

void parseKernelLine(const LogLine& line, ParsedLine& out) {
  auto rest = line.text;
  size_t digits = 0;
  while (digits < rest.size() && rest[digits] != ';') ++digits;
  if (digits == rest.size()) return;  // it is not what machined writes: shown as it is
  out.facility = static_cast<unsigned>(takeNumber(rest));
  out.severity = takeNumber(rest) & 7;
  auto sequence = takeNumber(rest), microseconds = takeNumber(rest);
  out.time = kj::UNIX_EPOCH + static_cast<int64_t>(takeNumber(rest)) * kj::NANOSECONDS;
  out.kernel = ParsedLine::Kernel{sequence, microseconds};
  out.text = line.text.slice(digits + 1, line.text.size());
}

// One line that says what the event is: its kind and the texts in it.
void parseEvent(const LogLine& line, ParsedLine& out) {
  decodeEvent(line.text, [&](rpc::Event::Reader event) {
    out.event = codec::writeJson(capnp::DynamicStruct::Reader(event), {.indent = 0});
    out.time = kj::UNIX_EPOCH + static_cast<int64_t>(event.getTime()) * kj::NANOSECONDS;
    kj::StringPtr kind = "event"_kj;
    KJ_IF_MAYBE (which, capnp::DynamicStruct::Reader(event).which()) {
      kind = which->getProto().getName();
    }
    out.ownText = kj::str(kind);
    if (event.isSequence()) {
      auto sequence = event.getSequence();
      out.ownText = kj::str("sequence ", sequence.getSequence(), ": ", sequence.getAction());
      if (sequence.getError().size() > 0) {
        out.ownText = kj::str(out.ownText, ": ", sequence.getError());
        out.severity = kErr;
      }
    } else if (event.isPhase()) {
      out.ownText =
          kj::str("phase ", event.getPhase().getName(), ": ", event.getPhase().getAction());
    } else if (event.isTask()) {
      out.ownText = kj::str("task ", event.getTask().getName(), ": ", event.getTask().getAction());
    }
    out.text = out.ownText;
  });
}

ParsedLine parse(const LogLine& line) {
  ParsedLine out;
  out.text = line.text;
  out.time = line.received;
  switch (line.stream) {
    case LogStream::KERNEL:
      parseKernelLine(line, out);
      break;
    case LogStream::EVENTS:
      parseEvent(line, out);
      break;
    case LogStream::AUDIT:
      out.facility = kAuditFacility;
      [[fallthrough]];
    default:
      out.severity = severityOf(line.text);
      KJ_IF_MAYBE (text, valueOf(line.text, "time=")) {
        KJ_IF_MAYBE (time, parseTimestamp(*text)) out.time = *time;
      }
  }
  return out;
}

// --- writing

using Out = kj::Vector<char>;
void add(Out& out, kj::StringPtr text) {
  out.addAll(text);
}

constexpr kj::StringPtr kReplacement = "\xef\xbf\xbd"_kj, kCut = "..."_kj;

// Writes the text until `room` bytes are used; then it ends in "...". Nothing is split: no
// character, no escape.
void addEscaped(Out& out, kj::ArrayPtr<const char> text, size_t room, bool json) {
  auto start = out.size(), fits = start;
  bool cut = false;
  for (auto rest = text.asBytes(); rest.size() > 0;) {
    auto character = firstCharacter(rest);
    auto before = out.size();
    if (!character.valid) {
      add(out, kReplacement);
    } else if (json && (character.code == '"' || character.code == '\\')) {
      out.add('\\');
      out.add(static_cast<char>(character.code));
    } else if (character.code < 0x20 || (character.code >= 0x7f && character.code < 0xa0)) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, json ? "\\u%04x" : "\\x%02x", character.code);
      add(out, escaped);
    } else {
      out.addAll(rest.slice(0, character.bytes).asChars());
    }
    if (out.size() - start > room) {
      out.truncate(before);
      cut = true;
      break;
    }
    if (out.size() - start + kCut.size() <= room) fits = out.size();
    rest = rest.slice(character.bytes, rest.size());
  }
  if (!cut) return;
  out.truncate(fits);
  if (room >= kCut.size()) add(out, kCut);
}

void addField(Out& out, kj::StringPtr name, kj::ArrayPtr<const char> value) {
  out.add(out.empty() || out.back() == '{' ? '"' : ',');
  if (out.back() == ',') out.add('"');
  add(out, name);
  add(out, "\":\""_kj);
  addEscaped(out, value, SIZE_MAX, true);
  out.add('"');
}

void addNumber(Out& out, kj::StringPtr name, uint64_t value) {
  add(out, kj::str(out.back() == '{' ? "\"" : ",\"", name, "\":", value));
}

// All but the text, which goes between the two.
struct Frame {
  Out before, after;
};

Frame jsonFrame(const LogLine& line, const ParsedLine& parsed, const FormatOptions& options) {
  Frame frame;
  add(frame.before, "{\"msg\":\""_kj);
  auto& out = frame.after;
  out.add('"');
  auto field = [&](kj::StringPtr name, kj::StringPtr value) { addField(out, name, value); };
  KJ_IF_MAYBE (kernel, parsed.kernel) {
    addNumber(out, "clock", kernel->microseconds);
    field("facility", parsed.facility < kj::size(kFacilities)
                          ? kj::str(kFacilities[parsed.facility])
                          : kj::str(parsed.facility));
    field("priority", kPriorities[parsed.severity]);
    addNumber(out, "seq", kernel->sequence);
  }
  KJ_IF_MAYBE (event, parsed.event) add(out, kj::str(",\"event\":", *event));
  field("talos-level", levelName(parsed.severity));
  if (parsed.kernel == nullptr) {
    field("talos-service", line.stream == LogStream::EVENTS ? "events"_kj : line.id);
  }
  field("talos-time", timeText(parsed.time, 9));
  for (auto& tag : options.tags) field(tag.key, tag.value);
  add(out, options.newline ? "}\n"_kj : "}"_kj);
  return frame;
}

// Printable ASCII without blanks; "-" for nothing.
kj::String headerField(kj::StringPtr text, size_t longest) {
  auto field = kj::heapString(text.slice(0, kj::min(text.size(), longest)));
  for (char& c : field) {
    if (c <= ' ' || c > '~') c = '_';
  }
  return field.size() == 0 ? kj::str("-") : kj::mv(field);
}

void addParameter(Out& out, kj::StringPtr name, kj::StringPtr value) {
  add(out, kj::str(' ', name, "=\""));
  for (auto rest = value.asBytes(); rest.size() > 0;) {
    auto character = firstCharacter(rest);
    if (!character.valid) {
      add(out, kReplacement);
    } else {
      if (character.code == '"' || character.code == '\\' || character.code == ']') out.add('\\');
      out.addAll(rest.slice(0, character.bytes).asChars());
    }
    rest = rest.slice(character.bytes, rest.size());
  }
  out.add('"');
}

kj::StringPtr messageId(LogStream stream) {
  switch (stream) {
    case LogStream::KERNEL:
      return "kernel"_kj;
    case LogStream::EVENTS:
      return "event"_kj;
    case LogStream::AUDIT:
      return "audit"_kj;
    default:
      return "-"_kj;
  }
}

Frame syslogFrame(const LogLine& line, const ParsedLine& parsed, const FormatOptions& options) {
  Frame frame;
  auto& out = frame.before;
  // A facility that syslog does not have cannot be in the number.
  auto facility = parsed.facility < kj::size(kFacilities) ? parsed.facility : 1;
  auto name = line.stream == LogStream::KERNEL   ? "kernel"_kj
              : line.stream == LogStream::EVENTS ? "events"_kj
                                                 : line.id;
  add(out, kj::str('<', facility * 8 + parsed.severity, ">1 ", timeText(parsed.time, 6), ' ',
                   headerField(options.hostname, 255), ' ', headerField(name, 48), " - ",
                   messageId(line.stream), ' '));
  KJ_IF_MAYBE (kernel, parsed.kernel) {
    add(out, kj::str("[kernel@32473 seq=\"", kernel->sequence, "\" clock=\"", kernel->microseconds,
                     "\"]"));
  }
  if (options.tags.size() > 0) {
    add(out, "[tags@32473"_kj);
    for (auto& tag : options.tags) addParameter(out, tag.key, tag.value);
    out.add(']');
  }
  if (parsed.kernel == nullptr && options.tags.size() == 0) out.add('-');
  out.add(' ');
  return frame;
}

}  // namespace

void formatLine(const LogLine& line, const FormatOptions& options, kj::Vector<char>& out) {
  auto parsed = parse(line);
  bool json = options.format == LogFormat::JSON_LINES;
  auto frame = json ? jsonFrame(line, parsed, options) : syslogFrame(line, parsed, options);
  auto around = frame.before.size() + frame.after.size();
  auto room = options.longest > around ? options.longest - around : 0;
  Out text;
  addEscaped(text, parsed.text, room, json);
  if (!json && options.octetCounting) add(out, kj::str(around + text.size(), ' '));
  out.addAll(frame.before);
  out.addAll(text);
  out.addAll(frame.after);
}

}  // namespace talos::logd
