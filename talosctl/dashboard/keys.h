// Keys as a terminal sends them (xterm's and the Linux console's sequences). Foreign bytes; pure.
#pragma once

#include <kj/vector.h>

namespace talos::talosctl::dashboard {

enum class Key : uint8_t {
  kCharacter,  // with its code in Unicode
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
  kInterrupt,  // Ctrl-C, where the terminal does not make a signal of it
};

struct Press {
  Key key;
  char32_t character = 0;
  bool operator==(const Press&) const = default;
};

// Sequences may come in pieces: what may be the beginning of one is kept for the bytes that follow.
class Keyboard {
 public:
  kj::Vector<Press> press(kj::ArrayPtr<const char> bytes);
  // After a pause nothing follows: a lone ESC was the key.
  kj::Vector<Press> pause();

 private:
  kj::Vector<char> kept;  // never longer than kLongest
  static constexpr size_t kLongest = 16;

  size_t take(kj::ArrayPtr<const char> bytes, kj::Vector<Press>& out);
};

}  // namespace talos::talosctl::dashboard
