// The file in which a lease outlives the process: magic, time, the server's message, and a CRC-32
// of all three. Pure.
//
// The time is that of the monotonic clock (kj::TimePoint of kj::Timer), which all processes of one
// boot share; the file therefore belongs in a folder that is empty after a boot.
#pragma once

#include <kj/time.h>

#include "networkd/dhcp/dhcp-wire.h"

namespace talos::networkd::dhcp {

struct LeaseFile {
  kj::TimePoint obtained;
  Bytes message;
};

// `magic` names the protocol and the format.
kj::Array<kj::byte> encode(kj::StringPtr magic, const LeaseFile& content);
// Returns nullptr if the file is not a result of encode(), or its time is later than `now`. The
// message points into the file.
kj::Maybe<LeaseFile> decodeLeaseFile(kj::StringPtr magic, Bytes file, kj::TimePoint now);

}  // namespace talos::networkd::dhcp
