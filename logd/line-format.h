// Formats of lines that leave the node: JSON lines and syslog (RFC 5424).
//
// Pure and total: a line is untrusted text (a service printed it), and any bytes become one valid
// message. Text is escaped as common/text/foreign-text.h says, for JSON or for a terminal.
//
// json_lines: an object in one line, with the fields of Talos: msg, talos-level,
// talos-service and talos-time; of the kernel clock, facility, msg, priority, seq, talos-level and
// talos-time; of an event `event`, the message as `talosctl events -o json` has it. Then `host`,
// the node's name, if it has one and no tag is called so; `talos-repeated`, true for a line that
// may have come before; and the tags.
//
// rfc5424: structured data are kernel@32473, repeated@32473 (without parameters: the line may have
// come before) and tags@32473: RFC 5612 assigns the number 32473 to organizations without a number.
// The text has no byte order mark.
#pragma once

#include <kj/vector.h>

#include "logd/parsed-line.h"

namespace talos::logd {

struct FormatOptions {
  config::LogFormat format = config::LogFormat::JSON_LINES;
  kj::ArrayPtr<const LineTag> tags = nullptr;
  kj::StringPtr hostname = ""_kj;
  size_t longest = SIZE_MAX;   // bytes of one message; a longer text is cut and ends with "..."
  bool octetCounting = false;  // rfc5424: "<bytes> " before the message (RFC 6587)
  bool newline = true;         // json_lines: newline after the message
  bool repeated = false;       // The line was sent before, and may have arrived.
};

// Appends one message.
void formatLine(const LogLine& line, const FormatOptions& options, kj::Vector<char>& out);

}  // namespace talos::logd
