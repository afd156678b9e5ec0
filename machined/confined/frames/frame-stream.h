// Frames (frame.h) on a socket: the brain's side, which waits for nobody, and the side of its
// programs, which has nothing else to do and blocks.
//
// Messages may hold secrets: memory that is given up here is zeroed, and what is returned is for
// the caller to zero.
#pragma once

#include <capnp/message.h>
#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/io.h>

#include "machined/confined/frames/frame.h"

namespace talos::machined {

kj::Promise<void> writeFrame(kj::AsyncIoStream& stream, kj::ArrayPtr<const capnp::word> words);
// Rejects when the sender is gone, and when it announces nothing or more than `most`. Memory only
// for what comes: a number is quickly said.
kj::Promise<kj::Array<capnp::word>> readFrame(kj::AsyncIoStream& stream,
                                              size_t most = kMostFrameWords);

// The descriptor that is the program's way to the brain.
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
