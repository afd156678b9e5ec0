// The bytes that a user has typed, for a loop that waits for them and for other events.
//
// The queue reads on while the loop does not wait: a read that was dropped because of another event
// could have lost a key.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/vector.h>

namespace talos::talosctl::dashboard {

class KeyQueue {
 public:
  // `read` resolves with some bytes, and rejects when no more bytes will come.
  explicit KeyQueue(kj::Function<kj::Promise<kj::Array<char>>()> read);
  KJ_DISALLOW_COPY_AND_MOVE(KeyQueue);

  // Returns all bytes that were typed and not taken yet; empty if `pause` ended first. Rejects as
  // `read` did. Only one call at a time.
  kj::Promise<kj::Array<char>> take(kj::Promise<void> pause);

 private:
  kj::Function<kj::Promise<kj::Array<char>>()> read;
  kj::Vector<char> typed;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> waiting;
  kj::ForkedPromise<void> reading;

  kj::Promise<void> readOn();
};

}  // namespace talos::talosctl::dashboard
