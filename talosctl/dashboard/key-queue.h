// The bytes that a user has typed, for a loop that waits for them and for other things.
//
// It reads on while nobody waits: a read that was dropped because something else came first could
// have taken a key with it.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/vector.h>

namespace talos::talosctl::dashboard {

class KeyQueue {
 public:
  // `read` resolves with some bytes, and rejects when there will be none any more.
  explicit KeyQueue(kj::Function<kj::Promise<kj::Array<char>>()> read);
  KJ_DISALLOW_COPY_AND_MOVE(KeyQueue);

  // All that was typed and not taken yet; empty when `pause` has ended before there was anything.
  // Rejects as `read` did. One at a time.
  kj::Promise<kj::Array<char>> take(kj::Promise<void> pause);

 private:
  kj::Function<kj::Promise<kj::Array<char>>()> read;
  kj::Vector<char> typed;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> waiting;
  kj::ForkedPromise<void> reading;

  kj::Promise<void> readOn();
};

}  // namespace talos::talosctl::dashboard
