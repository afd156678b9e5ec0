// Packet filters as classic BPF programs: filters of the user, and the default filter. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::talosctl {

struct BpfStep {
  uint16_t code;
  uint8_t jt, jf;
  uint32_t k;
  bool operator==(const BpfStep&) const = default;
};

// Reads the output of `tcpdump -dd EXPRESSION`: "{ 0x28, 0, 0, 0x0000000c },", one instruction per
// line. InvalidArgument, with the line, for any other text.
kj::Vector<BpfStep> parseBpfFilter(kj::StringPtr text);

// Returns a filter that accepts all packets but TCP packets from or to this port, in IPv4 and IPv6
// without extension headers, on links of any kind. For the API's own port: a capture must not
// capture the packets that it sends.
kj::Vector<BpfStep> withoutTcpPort(uint16_t port);

}  // namespace talos::talosctl
