#include "talosctl/dashboard/keys.h"

#include <kj/string.h>

#include "common/text/plain-text.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr char kEsc = 0x1b;

struct Sequence {
  kj::StringPtr text;  // bytes after ESC
  Key key;
};
constexpr Sequence kSequences[] = {
    {"[A"_kj, Key::kUp},      {"OA"_kj, Key::kUp},      {"[B"_kj, Key::kDown},
    {"OB"_kj, Key::kDown},    {"[C"_kj, Key::kRight},   {"OC"_kj, Key::kRight},
    {"[D"_kj, Key::kLeft},    {"OD"_kj, Key::kLeft},    {"[H"_kj, Key::kHome},
    {"OH"_kj, Key::kHome},    {"[1~"_kj, Key::kHome},   {"[7~"_kj, Key::kHome},
    {"[F"_kj, Key::kEnd},     {"OF"_kj, Key::kEnd},     {"[4~"_kj, Key::kEnd},
    {"[8~"_kj, Key::kEnd},    {"[5~"_kj, Key::kPageUp}, {"[6~"_kj, Key::kPageDown},
    {"[Z"_kj, Key::kBackTab},
};

// Returns the length of the sequence at the start of the text, by the rules of ECMA-48; 0 if it is
// incomplete.
size_t sequenceLength(kj::ArrayPtr<const char> text) {
  if (text.size() < 2) return 0;
  if (text[1] == 'O') return text.size() < 3 ? 0 : 3;
  if (text[1] != '[') return 1;  // ESC, followed by a key that does not belong to it
  for (size_t at = 2; at < text.size(); ++at) {
    if (text[at] >= 0x40 && text[at] <= 0x7e) return at + 1;
    if (text[at] < 0x20 || text[at] == 0x7f) return 1;
  }
  return 0;
}

// Returns true for a UTF-8 character whose last bytes are missing.
bool isCut(kj::ArrayPtr<const char> text) {
  auto first = kj::byte(text[0]);
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() >= length) return false;
  for (char c : text.slice(1, text.size())) {
    if ((c & 0xc0) != 0x80) return false;
  }
  return true;
}

void addSequence(kj::ArrayPtr<const char> sequence, kj::Vector<Press>& out) {
  if (sequence.size() == 1) {
    out.add(Press{Key::kEscape});
    return;
  }
  for (auto& one : kSequences) {
    if (one.text.asArray() == sequence.slice(1, sequence.size())) out.add(Press{one.key});
  }
  // Other keys, and reports of the terminal, have no effect.
}

}  // namespace

// Returns the number of bytes taken; 0 if more bytes must follow.
size_t Keyboard::take(kj::ArrayPtr<const char> bytes, kj::Vector<Press>& out) {
  auto first = bytes[0];
  switch (first) {
    case kEsc: {
      auto length = sequenceLength(bytes);
      if (length > 0) addSequence(bytes.slice(0, length), out);
      return length;
    }
    case '\t':
      out.add(Press{Key::kTab});
      return 1;
    case '\r':
    case '\n':
      out.add(Press{Key::kEnter});
      return 1;
    case 0x7f:
    case '\b':
      out.add(Press{Key::kBackspace});
      return 1;
    case 3:
      out.add(Press{Key::kInterrupt});
      return 1;
    default:
      break;
  }
  auto character = firstCharacter(bytes.asBytes());
  if (!character.valid && isCut(bytes)) return 0;
  if (character.valid && character.plain) out.add(Press{Key::kCharacter, character.code});
  return character.bytes;
}

kj::Vector<Press> Keyboard::press(kj::ArrayPtr<const char> bytes) {
  kj::Vector<Press> out;
  kept.addAll(bytes);
  size_t at = 0;
  while (at < kept.size()) {
    auto taken = take(kept.asPtr().slice(at, kept.size()), out);
    if (taken == 0) break;
    at += taken;
  }
  kj::Vector<char> rest;
  // A sequence without an end is not a key.
  if (kept.size() - at <= kLongest) rest.addAll(kept.asPtr().slice(at, kept.size()));
  kept = kj::mv(rest);
  return out;
}

kj::Vector<Press> Keyboard::pause() {
  kj::Vector<Press> out;
  if (kept.size() > 0 && kept[0] == kEsc) out.add(Press{Key::kEscape});
  kept.clear();
  return out;
}

KeyQueue::KeyQueue(kj::Function<kj::Promise<kj::Array<char>>()> read)
    : read(kj::mv(read)), reading(readKeys().fork()) {}

kj::Promise<void> KeyQueue::readKeys() {
  for (;;) {
    typed.addAll(co_await read());
    KJ_IF_MAYBE (fulfiller, waiting) (*fulfiller)->fulfill();
  }
}

kj::Promise<kj::Array<char>> KeyQueue::take(kj::Promise<void> pause) {
  if (typed.empty()) {
    auto some = kj::newPromiseAndFulfiller<void>();
    waiting = kj::mv(some.fulfiller);
    co_await some.promise.exclusiveJoin(kj::mv(pause)).exclusiveJoin(reading.addBranch());
    waiting = nullptr;
  }
  auto taken = kj::heapArray<char>(typed.asPtr());
  typed.clear();
  co_return taken;
}

}  // namespace talos::talosctl::dashboard
