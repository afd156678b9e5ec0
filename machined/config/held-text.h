// A text that holds secrets, and two numbers that belong to it, in a sealed memory file that
// process 1 holds under a name: it outlives the brain and nothing else. Replaced and dropped whole.
#pragma once

#include <kj/array.h>

#include "machined/process1/process1.h"

namespace talos::machined {

struct HeldText {
  uint64_t numbers[2] = {0, 0};
  kj::Array<char> text;

  HeldText() = default;
  HeldText(uint64_t first, uint64_t second, kj::Array<char> text)
      : numbers{first, second}, text(kj::mv(text)) {}
  HeldText(HeldText&&) = default;
  HeldText& operator=(HeldText&&) = default;
  ~HeldText() noexcept(false);  // overwrites the text
};

// `magic` says what kind of text it is: eight characters. None also when what is there is no such
// text, or one of more than `most` bytes: somebody else's.
kj::Maybe<HeldText> takeHeldText(Process1& process1, kj::StringPtr name, kj::StringPtr magic,
                                 size_t most);
// Resolves when process 1 has it.
kj::Promise<void> holdText(Process1& process1, kj::StringPtr name, kj::StringPtr magic,
                           const HeldText& held);

}  // namespace talos::machined
