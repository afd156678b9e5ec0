// Lines as a request of OTLP over HTTP: an ExportLogsServiceRequest (opentelemetry-proto, version
// 1) in the JSON encoding of protobuf, where names are lowerCamel and 64-bit numbers are texts.
//
// Pure and total: lines are untrusted text, escaped as JSON (common/text/foreign-text.h), and any
// bytes become one valid request. Each log is a resource:
//   resource   service.name (the service, "kernel", "events"), service.namespace "talos",
//              host.name, talos.stream, and the tags
//   record     timeUnixNano: the line's own time; observedTimeUnixNano: when logd read it;
//              severityNumber as the data model of logs maps those of syslog; severityText; body
//   of kernel  kernel.facility, kernel.priority, kernel.seq, kernel.clock (µs since the boot)
//   of events  event: the message as `talosctl events -o json` has it
#pragma once

#include <kj/vector.h>

#include "logd/parsed-line.h"

namespace talos::logd {

class OtlpRequest {
 public:
  // Both arguments outlive it.
  OtlpRequest(kj::ArrayPtr<const LineTag> tags, kj::StringPtr hostname);
  KJ_DISALLOW_COPY_AND_MOVE(OtlpRequest);

  void add(const LogLine& line);
  // Returns the request; nothing can be added afterwards.
  kj::Array<char> finish();

 private:
  kj::ArrayPtr<const LineTag> tags;
  kj::StringPtr hostname;
  kj::Vector<char> out;
  config::LogStream stream = config::LogStream::SERVICES;
  kj::String source;
  bool open = false;  // a resource is open

  void openResource(const LogLine& line);
  void closeResource();
};

}  // namespace talos::logd
