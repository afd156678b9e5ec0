// Keys as a terminal sends them (xterm's and the Linux console's sequences). Foreign bytes; pure.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/vector.h>

namespace talos::talosctl::dashboard {

enum class Key : uint8_t {
  kCharacter,  // with its code point in Unicode
  kUp,
  kDown,
  kLeft,
  kRight,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kTab,
  kBackTab,
  kEnter,
  kBackspace,
  kEscape,
  kInterrupt,  // Ctrl-C, if the terminal does not turn it into a signal
};

struct Press {
  Key key;
  char32_t character = 0;
  bool operator==(const Press&) const = default;
};

// Parses keys. Sequences may arrive in pieces: a possible beginning of a sequence is kept for the
// bytes that follow.
class Keyboard {
 public:
  kj::Vector<Press> press(kj::ArrayPtr<const char> bytes);
  // Ends an incomplete sequence after a pause: a lone ESC was the key.
  kj::Vector<Press> pause();

 private:
  kj::Vector<char> kept;  // never longer than kLongest
  static constexpr size_t kLongest = 16;

  size_t take(kj::ArrayPtr<const char> bytes, kj::Vector<Press>& out);
};

// The bytes that a user has typed, for a loop that waits for them and for other events.
//
// The queue reads on while the loop does not wait: a read that was dropped because of another event
// could have lost a key.
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

  kj::Promise<void> readKeys();
};

}  // namespace talos::talosctl::dashboard
