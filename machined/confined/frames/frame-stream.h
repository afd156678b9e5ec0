// Sends and receives frames (frame.h) on a socket. The brain's functions are asynchronous; its
// programs have nothing else to do, so BrainSocket blocks.
//
// Messages may hold secrets: this unit zeroes the memory that it frees, and the caller zeroes what
// is returned.
#pragma once

#include <capnp/message.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/io.h>

#include "machined/confined/frames/frame.h"

namespace talos::machined {

kj::Promise<void> writeFrame(kj::AsyncIoStream& stream, kj::ArrayPtr<const capnp::word> words);
// Rejects when the sender is gone, and when it announces a length of 0 or more than `most`.
// Allocates memory only for bytes that have come, because a sender can announce any length.
kj::Promise<kj::Array<capnp::word>> readFrame(kj::AsyncIoStream& stream,
                                              size_t most = kMostFrameWords);

// A program's end of its socket to the brain.
class BrainSocket {
 public:
  explicit BrainSocket(int socket, size_t mostWords = kMostFrameWords)
      : in(socket), out(socket), mostWords(mostWords) {}

  kj::Array<capnp::word> receive();
  void send(capnp::MessageBuilder& message);

 private:
  kj::FdInputStream in;
  kj::FdOutputStream out;
  size_t mostWords;
};

}  // namespace talos::machined
