#include "logd/otlp-request.h"

#include <kj/debug.h>

#include "common/text/foreign-text.h"

namespace talos::logd {
namespace {

using config::LogStream;
using Out = kj::Vector<char>;

// Numbers for syslog's severities, by the data model of logs
// (opentelemetry.io/docs/specs/otel/logs).
constexpr unsigned kSeverityNumbers[] = {21, 19, 18, 17, 13, 10, 9, 5};
constexpr kj::StringPtr kNamespace = "talos"_kj;

void append(Out& out, kj::StringPtr text) {
  out.addAll(text);
}

void appendText(Out& out, kj::ArrayPtr<const char> text) {
  addQuoted(out, text, Surface::kJson);
}

// Writes a comma after another member of a list, not at its beginning.
void separate(Out& out) {
  if (out.back() != '[') out.add(',');
}

void appendAttribute(Out& out, kj::StringPtr key, kj::ArrayPtr<const char> value) {
  separate(out);
  append(out, "{\"key\":"_kj);
  appendText(out, key);
  append(out, ",\"value\":{\"stringValue\":"_kj);
  appendText(out, value);
  append(out, "}}"_kj);
}

void appendAttribute(Out& out, kj::StringPtr key, uint64_t value) {
  separate(out);
  append(out, kj::str("{\"key\":\"", key, "\",\"value\":{\"intValue\":\"", value, "\"}}"));
}

kj::StringPtr nameOfStream(LogStream stream) {
  switch (stream) {
    case LogStream::KERNEL:
      return "kernel"_kj;
    case LogStream::EVENTS:
      return "events"_kj;
    case LogStream::AUDIT:
      return "audit"_kj;
    default:
      return "services"_kj;
  }
}

// 0 means an unknown time: the clock was before 1970.
void appendTime(Out& out, kj::StringPtr name, kj::Date date) {
  auto nanoseconds = kj::max((date - kj::UNIX_EPOCH) / kj::NANOSECONDS, int64_t{0});
  append(out, kj::str('"', name, "\":\"", nanoseconds, "\","));
}

void appendAttributesOf(Out& out, const ParsedLine& parsed) {
  KJ_IF_MAYBE (kernel, parsed.kernel) {
    appendAttribute(out, "kernel.facility", facilityName(parsed.facility));
    appendAttribute(out, "kernel.priority", priorityName(parsed.severity));
    appendAttribute(out, "kernel.seq", kernel->sequence);
    appendAttribute(out, "kernel.clock", kernel->microseconds);
  }
  KJ_IF_MAYBE (event, parsed.event) appendAttribute(out, "event", *event);
}

}  // namespace

OtlpRequest::OtlpRequest(kj::ArrayPtr<const LineTag> tags, kj::StringPtr hostname)
    : tags(tags), hostname(hostname) {
  append(out, "{\"resourceLogs\":["_kj);
}

void OtlpRequest::openResource(const LogLine& line) {
  separate(out);
  append(out, "{\"resource\":{\"attributes\":["_kj);
  appendAttribute(out, "service.name", source);
  appendAttribute(out, "service.namespace", kNamespace);
  appendAttribute(out, "host.name", hostname);
  appendAttribute(out, "talos.stream", nameOfStream(line.stream));
  for (auto& tag : tags) appendAttribute(out, tag.key, tag.value);
  append(out, "]},\"scopeLogs\":[{\"scope\":{\"name\":\"logd\"},\"logRecords\":["_kj);
  open = true;
}

void OtlpRequest::closeResource() {
  if (open) append(out, "]}]}"_kj);
  open = false;
}

void OtlpRequest::add(const LogLine& line) {
  if (!open || stream != line.stream || source != sourceOf(line)) {
    closeResource();
    stream = line.stream;
    source = kj::str(sourceOf(line));
    openResource(line);
  }
  auto parsed = parseLine(line);
  separate(out);
  out.add('{');
  appendTime(out, "timeUnixNano", parsed.time);
  appendTime(out, "observedTimeUnixNano", line.received);
  append(out, kj::str("\"severityNumber\":", kSeverityNumbers[parsed.severity & 7],
                      ",\"severityText\":\"", levelName(parsed.severity),
                      "\",\"body\":{\"stringValue\":"));
  appendText(out, parsed.text);
  append(out, "},\"attributes\":["_kj);
  appendAttributesOf(out, parsed);
  append(out, "]}"_kj);
}

kj::Array<char> OtlpRequest::finish() {
  closeResource();
  append(out, "]}"_kj);
  return out.releaseAsArray();
}

}  // namespace talos::logd
