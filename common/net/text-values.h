// Texts of values in the machine config: names, durations, sizes, keys.
//
// Each function takes any text and answers whether it is one, or what it says. Pure.
#pragma once

#include <kj/string.h>
#include <kj/time.h>
#include <stdint.h>

namespace talos::config {

// Labels of letters, digits, '-' and (as domain names of clusters may have) '_', 253 characters in
// all, perhaps with a dot behind the last; never an IP address.
bool isDnsName(kj::StringPtr name);
// An IP address, a DNS name, or with `wildcard` a name behind "*.".
bool isHost(kj::StringPtr text, bool wildcard = false);
// host or host:port; IPv6 in brackets.
bool isHostAndPort(kj::StringPtr text, bool needsPort);
// 6 characters, a dot, 16 characters of a-z and 0-9.
bool isToken(kj::StringPtr token);
// sha256: and 64 digits of lower-case hexadecimal.
bool isAuthorityHash(kj::StringPtr text);
// The base64 of exactly so many octets. What is decoded is zeroed.
bool isKey(kj::StringPtr base64, size_t octets);
// Of a network link: 1 to 15 octets without '/', ':' and blanks.
bool isLinkName(kj::StringPtr name);
// Six octets, not zero and not multicast, as 02:00:00:00:00:01.
bool isUnicastMac(kj::StringPtr text);
// An absolute path without empty, "." and ".." parts.
bool isCleanPath(kj::StringPtr path);
kj::String withoutLastSlash(kj::StringPtr path);
// The path below /proc/sys of a kernel parameter, or of a file below /sys, as sysctl(8) reads
// names: parts are separated by whichever of '.' and '/' comes first; where that is '.', a '/'
// stands for a dot in a name (net.ipv4.conf.eth0/100.forwarding).
kj::Maybe<kj::String> sysctlPath(kj::StringPtr name);

// Numbers with units of ns us µs ms s m h, as "1h30m"; "0" alone is zero. None for other texts and
// for what exceeds 290 years.
kj::Maybe<kj::Duration> parseDuration(kj::StringPtr text);
// Octets: a number, perhaps with a fraction, and a unit in any case: none, B, kB to EB (powers of
// 1000), KiB to EiB (of 1024), with the B left out too. None for other texts.
kj::Maybe<uint64_t> parseSize(kj::StringPtr text);
// A size, perhaps behind one of >=, <=, ==, > and <: which sizes it admits. None for other texts.
struct SizeRule {
  bool smaller, equal, larger;  // than `octets`
  uint64_t octets;
  bool admits(uint64_t size) const {
    return size < octets ? smaller : size == octets ? equal : larger;
  }
};
kj::Maybe<SizeRule> parseSizeRule(kj::StringPtr text);

}  // namespace talos::config
