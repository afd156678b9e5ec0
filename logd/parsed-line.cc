#include "logd/parsed-line.h"

#include "common/base/date.h"
#include "common/wire/event-line.h"
#include "common/yaml/yaml-codec.h"

namespace talos::logd {
namespace {

using config::LogStream;

constexpr kj::StringPtr kPriorities[] = {"emerg"_kj,   "alert"_kj,  "crit"_kj, "err"_kj,
                                         "warning"_kj, "notice"_kj, "info"_kj, "debug"_kj};
constexpr kj::StringPtr kFacilities[] = {
    "kern"_kj,   "user"_kj,   "mail"_kj,   "daemon"_kj, "auth"_kj,     "syslog"_kj,
    "lpr"_kj,    "news"_kj,   "uucp"_kj,   "cron"_kj,   "authpriv"_kj, "ftp"_kj,
    "ntp"_kj,    "audit"_kj,  "alert"_kj,  "clock"_kj,  "local0"_kj,   "local1"_kj,
    "local2"_kj, "local3"_kj, "local4"_kj, "local5"_kj, "local6"_kj,   "local7"_kj};

static_assert(kj::size(kFacilities) == kFacilityCount);

bool startsAt(kj::ArrayPtr<const char> text, size_t at, kj::StringPtr with) {
  return text.size() - at >= with.size() && text.slice(at, at + with.size()) == with.asArray();
}

// Returns the value after `name` (level= or "level":") among the first bytes of a line.
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
  // Kubernetes' own format: "E1126 12:07:35.042123 …".
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
  if (digits == rest.size()) return;  // Not machined's format: shown unchanged.
  out.facility = static_cast<unsigned>(takeNumber(rest));
  out.severity = takeNumber(rest) & 7;
  auto sequence = takeNumber(rest), microseconds = takeNumber(rest);
  out.time = kj::UNIX_EPOCH + static_cast<int64_t>(takeNumber(rest)) * kj::NANOSECONDS;
  out.kernel = ParsedLine::Kernel{sequence, microseconds};
  out.text = line.text.slice(digits + 1, line.text.size());
}

// Makes a line that describes the event: its kind and the texts in it.
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

}  // namespace

ParsedLine parseLine(const LogLine& line) {
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

kj::StringPtr sourceOf(const LogLine& line) {
  if (line.stream == LogStream::KERNEL) return "kernel"_kj;
  if (line.stream == LogStream::EVENTS) return "events"_kj;
  return line.id;
}

kj::StringPtr levelName(unsigned severity) {
  if (severity <= kErr) return "error"_kj;
  if (severity == kWarning) return "warn"_kj;
  return severity == kDebug ? "debug"_kj : "info"_kj;
}

kj::StringPtr priorityName(unsigned severity) {
  return kPriorities[severity & 7];
}

kj::String facilityName(unsigned facility) {
  return facility < kFacilityCount ? kj::str(kFacilities[facility]) : kj::str(facility);
}

}  // namespace talos::logd
