#include "logd/line-format.h"

#include <stdio.h>
#include <time.h>

#include <algorithm>

#include "common/text/foreign-text.h"

namespace talos::logd {
namespace {

using config::LogFormat;
using config::LogStream;

constexpr kj::StringPtr kHostField = "host"_kj;

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

using Out = kj::Vector<char>;
void add(Out& out, kj::StringPtr text) {
  out.addAll(text);
}

void addField(Out& out, kj::StringPtr name, kj::ArrayPtr<const char> value) {
  out.add(out.empty() || out.back() == '{' ? '"' : ',');
  if (out.back() == ',') out.add('"');
  add(out, name);
  add(out, "\":"_kj);
  addQuoted(out, value, Surface::kJson);
}

void addNumber(Out& out, kj::StringPtr name, uint64_t value) {
  add(out, kj::str(out.back() == '{' ? "\"" : ",\"", name, "\":", value));
}

// The message except for the text, which goes between the two parts.
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
    field("facility", facilityName(parsed.facility));
    field("priority", priorityName(parsed.severity));
    addNumber(out, "seq", kernel->sequence);
  }
  KJ_IF_MAYBE (event, parsed.event) add(out, kj::str(",\"event\":", *event));
  field("talos-level", levelName(parsed.severity));
  if (parsed.kernel == nullptr) {
    field("talos-service", line.stream == LogStream::KERNEL ? line.id : sourceOf(line));
  }
  field("talos-time", timeText(parsed.time, 9));
  bool hostTagged = std::any_of(options.tags.begin(), options.tags.end(),
                                [](auto& tag) { return tag.key == kHostField; });
  if (options.hostname.size() > 0 && !hostTagged) field(kHostField, options.hostname);
  if (options.repeated) add(out, ",\"talos-repeated\":true"_kj);
  for (auto& tag : options.tags) field(tag.key, tag.value);
  add(out, options.newline ? "}\n"_kj : "}"_kj);
  return frame;
}

// Returns printable ASCII without blanks; "-" for an empty text.
kj::String headerField(kj::StringPtr text, size_t longest) {
  auto field = kj::heapString(text.slice(0, kj::min(text.size(), longest)));
  for (char& c : field) {
    if (c <= ' ' || c > '~') c = '_';
  }
  return field.size() == 0 ? kj::str("-") : kj::mv(field);
}

void addParameter(Out& out, kj::StringPtr name, kj::StringPtr value) {
  add(out, kj::str(' ', name, "=\""));
  for (char c : printable(value)) {
    if (c == '"' || c == '\\' || c == ']') out.add('\\');
    out.add(c);
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
  // The message's number has no room for a facility that syslog does not have.
  auto facility = parsed.facility < kFacilityCount ? parsed.facility : 1;
  add(out, kj::str('<', facility * 8 + parsed.severity, ">1 ", timeText(parsed.time, 6), ' ',
                   headerField(options.hostname, 255), ' ', headerField(sourceOf(line), 48), " - ",
                   messageId(line.stream), ' '));
  KJ_IF_MAYBE (kernel, parsed.kernel) {
    add(out, kj::str("[kernel@32473 seq=\"", kernel->sequence, "\" clock=\"", kernel->microseconds,
                     "\"]"));
  }
  if (options.repeated) add(out, "[repeated@32473]"_kj);
  if (options.tags.size() > 0) {
    add(out, "[tags@32473"_kj);
    for (auto& tag : options.tags) addParameter(out, tag.key, tag.value);
    out.add(']');
  }
  if (parsed.kernel == nullptr && options.tags.size() == 0 && !options.repeated) out.add('-');
  out.add(' ');
  return frame;
}

}  // namespace

void formatLine(const LogLine& line, const FormatOptions& options, kj::Vector<char>& out) {
  auto parsed = parseLine(line);
  bool json = options.format == LogFormat::JSON_LINES;
  auto frame = json ? jsonFrame(line, parsed, options) : syslogFrame(line, parsed, options);
  auto around = frame.before.size() + frame.after.size();
  auto room = options.longest > around ? options.longest - around : 0;
  Out text;
  addEscaped(text, parsed.text, json ? Surface::kJson : Surface::kTerminal, room);
  if (!json && options.octetCounting) add(out, kj::str(around + text.size(), ' '));
  out.addAll(frame.before);
  out.addAll(text);
  out.addAll(frame.after);
}

}  // namespace talos::logd
