// Texts of values in the machine config: names, durations, sizes, keys.
//
// Each function takes any text and returns whether the text is valid, or its value. Pure.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <kj/time.h>
#include <stdint.h>

namespace talos::config {

// Returns true for labels of letters, digits, '-' and (as domain names of clusters may have) '_',
// 253 characters in all, perhaps with a dot at the end; false for an IP address.
bool isDnsName(kj::StringPtr name);
// Returns why a text is not the name of a host (RFC 1123, section 2.1); nullptr if it is one. An IP
// address is not.
kj::Maybe<kj::String> hostNameProblem(kj::StringPtr name);
// Returns true for an IP address, a DNS name, or with `wildcard` a name after "*.".
bool isHost(kj::StringPtr text, bool wildcard = false);
// Returns true for host or host:port; IPv6 in brackets.
bool isHostAndPort(kj::StringPtr text, bool needsPort);
// Returns a port, 1 to 65535, of one to five decimal digits; nullptr for other text.
kj::Maybe<uint16_t> parsePort(kj::StringPtr text);
// Returns true for 6 characters, a dot, 16 characters of a-z and 0-9.
bool isToken(kj::StringPtr token);
// Returns true for visible characters of ASCII, without blanks: a header of HTTP can carry them.
bool isVisible(kj::StringPtr text);
// Returns true for sha256: and 64 digits of lower-case hexadecimal.
bool isAuthorityHash(kj::StringPtr text);
// Returns true for the base64 of exactly so many octets. The decoded octets are zeroed.
bool isKey(kj::StringPtr base64, size_t octets);
// Returns true for the name of a network link: 1 to 15 octets without '/', ':' and blanks.
bool isLinkName(kj::StringPtr name);
// Returns true for six octets, not zero and not multicast, as 02:00:00:00:00:01.
bool isUnicastMac(kj::StringPtr text);
// Parses a DUID (RFC 8415 §11.1): 3 to 130 octets of two hexadecimal digits each, with a colon
// between each two octets, or without colons. Returns nullptr for other texts.
kj::Maybe<kj::Array<kj::byte>> parseDuid(kj::StringPtr text);
// Returns true for an absolute path without empty, "." and ".." parts.
bool isCleanPath(kj::StringPtr path);
kj::String withoutLastSlash(kj::StringPtr path);
// Returns the path below /proc/sys of a kernel parameter, or of a file below /sys, as sysctl(8)
// reads names: the first '.' or '/' in the name is the separator of its parts; if this is '.', a
// '/' represents a dot in a name (net.ipv4.conf.eth0/100.forwarding).
kj::Maybe<kj::String> sysctlPath(kj::StringPtr name);

// Parses numbers with units of ns us µs ms s m h, as "1h30m"; "0" alone is zero. Returns nullptr
// for other texts and for more than 290 years.
kj::Maybe<kj::Duration> parseDuration(kj::StringPtr text);
// Parses octets: a number, perhaps with a fraction, and a unit in any case: no unit, B, kB to EB
// (powers of 1000), KiB to EiB (of 1024), with the B left out too. Returns nullptr for other texts.
kj::Maybe<uint64_t> parseSize(kj::StringPtr text);
// The sizes that a rule admits: a size, perhaps after one of >=, <=, ==, > and <. nullptr for other
// texts.
struct SizeRule {
  bool smaller, equal, larger;  // than `octets`
  uint64_t octets;
  bool admits(uint64_t size) const {
    return size < octets ? smaller : size == octets ? equal : larger;
  }
};
kj::Maybe<SizeRule> parseSizeRule(kj::StringPtr text);

}  // namespace talos::config
