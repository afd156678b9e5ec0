// Captures packets for administrators: streams the packets of a link as a pcap file.
//
// A capture has a socket with a buffer of 2 MiB and one more batch of 64 KiB at most: if the reader
// is slower than the link, packets are lost and counted, and the memory does not grow. A capture
// ends with its duration (packets captured until then are sent), with its caller, with its link, or
// if its caller takes nothing for 60 s: then another client may have its place. It keeps nothing,
// and changes nothing of the network except the link's promiscuous mode, if requested, for its
// duration.
#pragma once

#include <kj/async-unix.h>
#include <kj/timer.h>

#include "rpc/network.capnp.h"
#include "rpc/stream.capnp.h"

namespace talos::networkd {

constexpr unsigned kMostCaptures = 4;  // at once

class Captures {
 public:
  struct Counts {
    uint64_t packets = 0;  // sent
    uint64_t dropped = 0;  // dropped by the kernel, because the buffer was full
  };
  virtual ~Captures() noexcept(false) = default;
  // Implements rpc::Network.capture. The parameters need not outlive the call; the object must
  // outlive the promise.
  virtual kj::Promise<Counts> capture(rpc::Network::CaptureParams::Reader wanted) = 0;
};

// Opens captures in the network namespace of the process.
kj::Own<Captures> openCaptures(kj::UnixEventPort& port, kj::Timer& timer);

}  // namespace talos::networkd
