#include "common/text/plain-text.h"

namespace talos {
namespace {

struct Range {
  uint32_t first, last;
};
constexpr Range kControls[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},  // DEL, and C1: its CSI is an escape sequence in one character
    {0x00ad, 0x00ad}, {0x061c, 0x061c},  // the soft hyphen; from here on also directions
    {0x180e, 0x180e}, {0x200b, 0x200f},  // of no width
    {0x2028, 0x202e},                    // separators of lines and paragraphs
    {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
};

// 0 where the sequence is invalid.
size_t sequenceLength(kj::ArrayPtr<const kj::byte> text) {
  auto first = text[0];
  size_t length = first < 0x80   ? 1
                  : first < 0xc2 ? 0
                  : first < 0xe0 ? 2
                  : first < 0xf0 ? 3
                  : first < 0xf5 ? 4
                                 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((text[k] & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && text[1] < 0xa0) return 0;
  if (first == 0xed && text[1] >= 0xa0) return 0;
  if (first == 0xf0 && text[1] < 0x90) return 0;
  if (first == 0xf4 && text[1] >= 0x90) return 0;
  return length;
}

uint32_t codePoint(kj::ArrayPtr<const kj::byte> sequence) {
  constexpr kj::byte kPayload[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t value = sequence[0] & kPayload[sequence.size()];
  for (auto more : sequence.slice(1, sequence.size())) value = value << 6 | (more & 0x3f);
  return value;
}

}  // namespace

Utf8::Utf8(uint32_t code) {
  count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (auto at = count - 1; at > 0; --at, code >>= 6) bytes[at] = char(0x80 | (code & 0x3f));
  constexpr uint8_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  bytes[0] = char(kFirst[count - 1] | code);
}

PlainCharacter firstCharacter(kj::ArrayPtr<const kj::byte> text) {
  auto length = sequenceLength(text);
  if (length == 0) return {1, false, 0, false};
  auto code = codePoint(text.slice(0, length));
  for (auto& range : kControls) {
    if (code >= range.first && code <= range.last) return {length, true, code, false};
  }
  return {length, true, code, true};
}

bool isPlainText(kj::StringPtr text) {
  auto rest = text.asBytes();
  while (rest.size() > 0) {
    auto character = firstCharacter(rest);
    if (!character.plain) return false;
    rest = rest.slice(character.bytes, rest.size());
  }
  return true;
}

}  // namespace talos
