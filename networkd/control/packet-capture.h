// Captures packets for administrators: those that pass a link, as a pcap file that is streamed.
//
// A capture has a socket with a buffer of 2 MiB and at most one batch of 64 KiB besides: a reader
// that is slower than the link loses packets, which are counted, and makes nothing grow. It ends
// with its duration (packets captured until then are sent), with its caller, or with its link.
// Nothing is kept, and nothing of the network is changed but, for a promiscuous one and as long as
// it lasts, the link's mode.
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
    uint64_t dropped = 0;  // by the kernel, because the buffer was full
  };
  virtual ~Captures() noexcept(false) = default;
  // As rpc::Network.capture. The parameters need not outlive the call, only its promise the object.
  virtual kj::Promise<Counts> capture(rpc::Network::CaptureParams::Reader wanted) = 0;
};

// Of the network namespace that the process is in.
kj::Own<Captures> openCaptures(kj::UnixEventPort& port, kj::Timer& timer);

}  // namespace talos::networkd
